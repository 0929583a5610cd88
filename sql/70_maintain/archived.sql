-- Confirms the copy of an era, if it has as many messages and the same checksum.
create or replace function pgq.archived(era bigint, messages bigint, checksum bigint)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_era pgq.era;
    v_messages bigint;
    v_checksum bigint;
begin
    perform pgq._take_turn('era');
    select e.* into v_era from pgq.era e
    where e.number = archived.era and e.number < pg_sequence_last_value('pgq.era_number')
      and e.emptied_at is null;
    if not found then
        raise exception 'era % is not there to be archived', archived.era
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'It was emptied, or is not closed yet. Let eras wait for the archive '
                      'with pgq.archive_wait.';
    end if;
    -- As a condition, because a query that assigns never runs in parallel.
    if ((messages, checksum) = (
        select count(*), coalesce(sum(pgq._checksum(m)), 0)::bigint
        from pgq.message m where m.era = v_era.slot)) is not true
    then
        select count(*), coalesce(sum(pgq._checksum(m)), 0)::bigint into v_messages, v_checksum
        from pgq.message m where m.era = v_era.slot;
        raise exception 'the copy of era % is not what the era holds', archived.era
            using errcode = 'data_corrupted',
                  detail = format('%s messages with checksum %s were copied, there are %s with %s.',
                                  messages, checksum, v_messages, v_checksum),
                  hint = 'Copy it again.';
    end if;
    update pgq.era e set archived_at = pgq.now() where e.number = archived.era;
end
$$;
comment on function pgq.archived(bigint, bigint, bigint) is
    'Confirms that an era has been copied: it may be emptied then. XX001 unless the number of '
    'messages and the checksum are those of the era. The checksum is the sum over its messages of '
    'the first 8 hexadecimal digits of md5(id|topic|priority|headers|payload|microseconds of '
    'published_at).';
revoke all on function pgq.archived(bigint, bigint, bigint) from public;
