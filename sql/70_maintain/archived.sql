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
    -- That there are still as many messages shows that nobody has published into it since.
    -- As a condition, because a query that is assigned never runs in parallel.
    if (messages, checksum, (select count(*) from pgq.message m where m.era = v_era.slot))
       is distinct from (v_era.messages, v_era.checksum, v_era.messages)
    then
        select count(*) into v_messages from pgq.message m where m.era = v_era.slot;
        raise exception 'the copy of era % is not what the era holds', archived.era
            using errcode = 'data_corrupted',
                  detail = format('%s messages with checksum %s were copied; there were %s with %s '
                                  'to be copied, and there are %s now.',
                                  messages, checksum, v_era.messages, v_era.checksum, v_messages),
                  hint = 'Copy it again, as pgq.archive_next gives it.';
    end if;
    update pgq.era e set archived_at = pgq.now() where e.number = archived.era;
end
$$;
comment on function pgq.archived(bigint, bigint, bigint) is
    'Confirms that an era has been copied: it may be emptied then. XX001 unless the number of '
    'messages and the checksum are those of the era when pgq.archive_next gave it. The checksum is '
    'the sum over its messages of the first 8 hexadecimal digits of '
    'md5(id|topic|priority|headers|payload|microseconds of published_at).';
revoke all on function pgq.archived(bigint, bigint, bigint) from public;
