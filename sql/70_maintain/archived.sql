-- Confirms the copy of an era, if it has the same number of messages and the same checksum.
create or replace function pgq.archived(
    era bigint, messages bigint, checksum bigint, attempt int default null,
    path text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_era pgq.era;
    v_messages bigint;
begin
    perform pgq._lock('era');
    select e.* into v_era from pgq.era e
    where e.number = archived.era and e.number < pg_sequence_last_value('pgq.era_number')
      and e.emptied_at is null;
    if not found then
        raise exception 'era % is not there to be archived', archived.era
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'It was emptied, or is not closed yet. Let eras wait for the archive '
                      'with pgq.archive_wait.';
    end if;
    if attempt <> (select c.attempt from pgq.archive_copy c where c.era = archived.era) then
        raise exception 'attempt % to copy era % is not the last one', attempt, archived.era
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Another process copies the era, or has done so: leave it alone.';
    end if;
    -- The unchanged number of messages shows that nobody has published into the era since.
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
    insert into pgq.archive_era as e (era, started_at, messages, checksum, low, high, old, path,
                                      archived_at)
    select v_era.number, v_era.started_at, archived.messages, archived.checksum, min(m.id),
           max(m.id), coalesce(range_agg(int8range(m.id, m.id + 1)) filter (where m.id <= (
               select max(b.high) from pgq.archive_era b where b.era < v_era.number)), '{}'),
           archived.path, pgq.now()
    from pgq.message m where m.era = v_era.slot
    on conflict on constraint archive_era_pkey do update  -- confirmed once more
    set path = coalesce(excluded.path, e.path), archived_at = excluded.archived_at;
    update pgq.era e set archived_at = pgq.now() where e.number = archived.era;
end
$$;
comment on function pgq.archived(bigint, bigint, bigint, int, text) is
    'Confirms a copy of an era, so that the era may be truncated. XX001 unless the number of '
    'messages and the checksum are those of the era when pgq.archive_next returned it. The '
    'checksum is the sum over its messages of the first 8 hexadecimal digits of '
    'md5(id|topic|priority|headers|payload|published_at|sender|recipient|reply_to|correlation_id| '
    'group_key|dedup_key|publisher|deliver_at|expires_at). Times are in microseconds, but '
    'deliver_at is text, such as 2030-01-02T03:04:05.000000Z or infinity. From sender to '
    'deliver_at a value is written as = and its text, or as - if it is null; expires_at is - if '
    'it is null or infinite. With an attempt: 55000 unless it is the last attempt of '
    'pgq.archive_next. The path is stored for pgq.log_parts.';
