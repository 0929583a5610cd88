-- Sets how long eras wait for the archive beyond their retention; null: not at all.
create or replace function pgq.archive_wait(wait interval) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if wait < interval '0'
       or wait is distinct from pgq._bounded(wait, pgq._limit('policy_years')) and wait is not null
    then
        raise exception 'wait must not be negative, and at most % years',
            pgq._limit('policy_years')
            using errcode = 'invalid_parameter_value',
                  hint = 'It is how long the log may grow while the archive does not run.';
    end if;
    lock table pgq.archive in share row exclusive mode;
    if wait is null then
        delete from pgq.archive;
        return;
    end if;
    update pgq.archive a set wait = archive_wait.wait;
    if not found then
        insert into pgq.archive (wait) values (archive_wait.wait);
    end if;
end
$$;
comment on function pgq.archive_wait(interval) is
    'Keeps each era of the log beyond its retention until pgq.archived has confirmed a copy of '
    'it, but no longer than the given time. Null: eras do not wait for an archive.';
