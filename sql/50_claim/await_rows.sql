-- Waits a moment for claims that are taking from these ready rows; true if they have ended. Keeps
-- no lock: two claims that have waited for the same row would lock each other out of it. Requests
-- the lock that claims take, so that it waits for other waiters too: a weaker lock would be granted
-- at once, and would keep all claims from taking.
create or replace function pgq._await_rows(rows tid[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
begin
    perform from pgq.ready r where r.ctid = any (rows) for update;
    raise exception using errcode = 'QU000';
exception
    when sqlstate 'QU000' then
        return true;
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._await_rows(tid[]) is
    'Waits a moment for claims that are taking from these ready rows.';
