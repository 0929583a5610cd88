-- Waits a moment for whoever is taking from these ready rows; true if the wait is over. Keeps no
-- lock: two who have waited for the same row would lock each other out of it. Asks for the lock of
-- those who take, so that another one that waits is waited for too: a weaker lock would be had at
-- once, while it keeps everybody from taking.
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
    'Waits a moment for whoever is taking from these ready rows.';
