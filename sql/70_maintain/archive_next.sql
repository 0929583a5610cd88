-- The oldest closed era that has not been archived. Unfinished messages are first copied forward
-- into the current era, so that the era does not change while it is read.
create or replace function pgq.archive_next(owner text default null)
returns table (era bigint, started_at timestamptz, slot int, messages bigint, low bigint,
               high bigint, unused text[], copy_id uuid, attempt int)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_era pgq.era;
    v_copy pgq.archive_copy;
    v_counts bigint[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the archive reads under READ COMMITTED only'
            using errcode = 'feature_not_supported',
                  hint = 'An older snapshot does not see the messages copied forward.';
    end if;
    perform pgq._lock('era');
    if exists (select from pgq.archive a
               where a.until > pgq.now() and a.owner is distinct from archive_next.owner)
    then
        raise exception 'another process archives the log'
            using errcode = 'object_in_use',
                  detail = (select format('%s has it until %s, and renews it.', a.owner, a.until)
                            from pgq.archive a limit 1),
                  hint = 'Wait until it is done. What it has confirmed need not be copied again.';
    end if;
    delete from pgq.archive_copy c
    where not exists (select from pgq.era e where e.number = c.era);
    select e.* into v_era from pgq.era e
    where e.number < pg_sequence_last_value('pgq.era_number') and e.emptied_at is null
      and e.archived_at is null
    order by e.number limit 1;
    if not found then
        return;
    end if;
    -- Waits for publishers that began when the era was the current one.
    case v_era.slot
        when 0 then lock table only pgq.message_0 in share row exclusive mode;
        when 1 then lock table only pgq.message_1 in share row exclusive mode;
        when 2 then lock table only pgq.message_2 in share row exclusive mode;
    end case;
    perform pgq._copy_forward(v_era.slot, 'infinity');
    insert into pgq.archive_copy as c (era) values (v_era.number)
    on conflict on constraint archive_copy_pkey do update set attempt = c.attempt + 1
    returning c.* into v_copy;
    -- A loop over one row of counts, because a query that is assigned never runs in parallel.
    foreach v_counts slice 1 in array (
        select array[count(*), coalesce(sum(pgq._checksum(m)), 0)::bigint, min(m.id), max(m.id),
                     count(m.sender), count(m.recipient), count(m.reply_to),
                     count(m.correlation_id), count(m.group_key), count(m.expires_at),
                     count(m.dedup_key), count(m.deliver_at), count(m.publisher)]
        from pgq.message m where m.era = v_era.slot)
    loop
        update pgq.era e set messages = v_counts[1], checksum = v_counts[2]
        where e.number = v_era.number;
        return query
            select v_era.number, v_era.started_at, v_era.slot::int, v_counts[1], v_counts[3],
                   v_counts[4], array(
                       select u.name
                       from unnest('{sender,recipient,reply_to,correlation_id,group_key,expires_at,
                                     dedup_key,deliver_at,publisher}'::text[],
                                   v_counts[5:]) u (name, used)
                       where u.used = 0), v_copy.copy_id, v_copy.attempt;
    end loop;
end
$$;
comment on function pgq.archive_next(text) is
    'The oldest era of the log that is closed and not archived: its number, its slot (the column '
    'era of pgq.message), the number of messages to copy, and the columns that are null in all of '
    'them and need not be copied. All these messages are finished; unfinished ones were copied '
    'forward into the current era. No row: everything is archived. Each call begins a new '
    'attempt, and only the last attempt can be confirmed: write each attempt to its own path, '
    'named by copy_id and attempt. 55006 if another owner has begun with pgq.archive_begin.';
