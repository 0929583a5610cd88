-- Locks a name until the transaction ends, or returns false if another transaction holds the lock.
create or replace function pgq._try_lock(what text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.mutex m where m.what = _try_lock.what for update skip locked;
    return found;
end
$$;
comment on function pgq._try_lock(text) is
    'Locks a name until the transaction ends, or returns false: it never waits.';
