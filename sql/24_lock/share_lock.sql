-- Takes a shared lock on a name until the transaction ends. Only exclusive locks (_lock) wait for
-- it.
create or replace function pgq._share_lock(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.mutex m where m.what = _share_lock.what for share;
end
$$;
comment on function pgq._share_lock(text) is
    'Takes a shared lock on a name until the transaction ends.';
