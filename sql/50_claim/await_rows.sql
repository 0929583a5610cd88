-- Waits a moment for whoever is taking from these ready rows; true if the wait is over.
create or replace function pgq._await_rows(rows tid[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
begin
    perform from pgq.ready r where r.ctid = any (rows) for key share;
    return true;
exception
    when lock_not_available then
        return false;
end
$$;
comment on function pgq._await_rows(tid[]) is
    'Waits a moment for whoever is taking from these ready rows.';
revoke all on function pgq._await_rows(tid[]) from public;
