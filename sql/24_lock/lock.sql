-- Locks a name until the transaction ends. Waits for a transaction that holds the lock.
create or replace function pgq._lock(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.mutex m where m.what = _lock.what for update;
end
$$;
comment on function pgq._lock(text) is 'Locks a name until the transaction ends.';
