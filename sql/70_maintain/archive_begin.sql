-- Acquires the ownership of the archive, or renews it: the owner calls this periodically.
create or replace function pgq.archive_begin(
    owner text, wait interval default '7 days', timeout interval default '30 s'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_archive pgq.archive;
begin
    if owner is null or wait is null or timeout is null or timeout <= interval '0' then
        raise exception 'an archive needs an owner, a wait and a timeout longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'An owner that does not renew it within the timeout loses the archive.';
    end if;
    lock table pgq.archive in share row exclusive mode;
    select a.* into v_archive from pgq.archive a limit 1;
    if v_archive.until > pgq.now() and v_archive.owner <> archive_begin.owner then
        raise exception 'another process archives the log'
            using errcode = 'object_in_use',
                  detail = format('%s has it until %s, and renews it.', v_archive.owner,
                                  v_archive.until),
                  hint = 'Wait until it is done. What it has confirmed need not be copied again.';
    end if;
    perform pgq.archive_wait(archive_begin.wait);
    update pgq.archive a set owner = archive_begin.owner, until = pgq.now() + timeout;
end
$$;
comment on function pgq.archive_begin(text, interval, interval) is
    'Makes the caller''s process the only one that archives the log, and lets eras wait as '
    'pgq.archive_wait does. The owner repeats the call before the timeout ends. 55006 if another '
    'owner archives.';
