-- Adds messages that the log still has to a new subscription. The caller has locked publishers out.
create or replace function pgq._backfill(
    queue pgq.queue, binding pgq.binding, since timestamptz, since_id bigint
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_low bigint;
    v_high bigint;
    v_held int8multirange;
    v_done int8multirange;
    v_set record;
begin
    if queue.mode = 'archive' then
        return;  -- an archive delivers nothing, and the log has the messages
    end if;
    -- Finished messages become unfinished again: their eras must not be truncated meanwhile.
    perform pgq._share_lock('era');
    select min(m.id), max(m.id) into v_low, v_high from pgq.message m;
    v_low := greatest(v_low, since_id);
    -- Messages that the queue already holds by another binding are not added.
    v_held := pgq._held_by(queue.queue_id);
    if queue.journal = 'all' then
        select coalesce(range_agg(j.ids), '{}') into v_done from pgq.journal j
        where j.queue_id = queue.queue_id and j.event in (
            'ack', 'discard', 'expire', 'cancel', 'purge', 'move', 'replace');
    end if;
    while v_low <= v_high loop
        for v_set in
            -- Messages of ordering groups all together: their order is that of their ids.
            select case when m.deliver_at > v_now and m.group_key is null then m.deliver_at end
                       as due_at,
                   m.group_key is not null as grouped, array_agg(m.id order by m.id) as ids
            from pgq.message m
            where m.id >= v_low and m.id < v_low + 100000
              and (since is null or m.published_at >= since)
              and m.deliver_at is distinct from 'infinity'
              and (m.expires_at is null or m.expires_at > v_now)
              and (m.topic = binding.pattern and binding.regex is null or m.topic ~ binding.regex)
              and pgq._matches(binding.path, binding.scope, m, 1, v_now)
              and not v_held @> m.id
              -- Messages that it has finished by another binding are not added either. If acks are
              -- not recorded, a message counts as finished if a binding that existed at its
              -- publication matches it.
              and not (coalesce(v_done @> m.id, true) and exists (
                  select from pgq.binding b
                  where b.queue_id = queue.queue_id and b.binding_id <> binding.binding_id
                    and (v_done is not null or b.created_at <= m.published_at)
                    and (m.topic = b.pattern and b.regex is null or m.topic ~ b.regex)
                    and pgq._matches(b.path, b.scope, m, 1, v_now)))
            group by 1, 2
        loop
            if v_set.grouped then
                perform pgq._rejoin_groups(queue, v_set.ids, null, null, v_now);
            elsif v_set.due_at is not null then
                insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
                values (queue.queue_id, v_set.due_at, 0, cardinality(v_set.ids),
                        pgq._set_of(v_set.ids));
                perform pgq._wake(queue.queue_id);
            else
                perform pgq._enqueue(queue, pgq._set_of(v_set.ids), 0, null, false);
            end if;
        end loop;
        -- Ids may have gaps of any size.
        select min(m.id) into v_low from pgq.message m where m.id >= v_low + 100000;
    end loop;
end
$$;
comment on function pgq._backfill(pgq.queue, pgq.binding, timestamptz, bigint) is
    'Adds messages that the log still has to a new subscription.';
