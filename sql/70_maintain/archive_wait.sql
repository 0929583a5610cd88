-- Lets eras wait for the archive, this long; null: for nobody.
create or replace function pgq.archive_wait(wait interval) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if wait < interval '0' or not isfinite(wait) then
        raise exception 'wait must be finite and not negative'
            using errcode = 'invalid_parameter_value',
                  hint = 'It is how long the log may grow while the archive does not run.';
    end if;
    lock table pgq.archive in share row exclusive mode;
    delete from pgq.archive;
    insert into pgq.archive (wait) select archive_wait.wait where archive_wait.wait is not null;
end
$$;
comment on function pgq.archive_wait(interval) is
    'From now on an era of the log is kept beyond its retention until pgq.archived has confirmed '
    'a copy of it, but for no longer than the wait. Null: eras wait for nobody.';
revoke all on function pgq.archive_wait(interval) from public;
