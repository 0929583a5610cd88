-- Dead letters back to their queue, the oldest first.
create or replace function pgq.replay(
    topic text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', replay.topic);
    v_now timestamptz := pgq.now();
    v_letters bigint[] := pgq._dead_letters(v_queue.queue_id, filter, n, not dry_run);
    v_set record;
begin
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    -- The log may have forgotten the message; the dead letter has all of it. Another queue may have
    -- the same message dead and bring it back at this moment: one after the other.
    if exists (select from pgq.dead_letter d
               where d.dead_letter_id = any (v_letters)
                 and not exists (select from pgq.message m where m.id = d.message_id))
    then
        perform pgq._refuse_snapshot();
        perform pgq._take_turn('replay');
    end if;
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, published_at, publisher)
    select d.message_id, d.topic, d.priority, d.headers, d.payload, d.sender, d.recipient,
           d.reply_to, d.correlation_id, d.group_key, d.dedup_key, 'infinity', d.expires_at,
           d.published_at, null
    from pgq.dead_letter d
    where d.dead_letter_id = any (v_letters)
      and not exists (select from pgq.message m where m.id = d.message_id);

    for v_set in
        with gone as (
            delete from pgq.dead_letter d where d.dead_letter_id = any (v_letters)
            returning d.message_id, d.failures, d.expires_at <= v_now as expired, d.group_key
        )
        -- By group and id, because the first of a group that comes becomes its head.
        select g.failures, coalesce(g.expired, false) as expired, g.group_key,
               count(*)::int as size, range_agg(int8range(g.message_id, g.message_id + 1)) as ids,
               array_agg(g.message_id order by g.message_id) as list
        from gone g group by 1, 2, 3 order by g.group_key, min(g.message_id)
    loop
        v_set.failures := pgq._failure(
            v_set.failures, 'replay', null, null, null, null, null, v_now);
        if v_set.group_key is not null then
            -- Back into its group: at its head if it has blocked it, else in line. If it was to be
            -- moved on from here, it no longer is.
            delete from pgq.group_stall s
            where s.queue_id = v_queue.queue_id and s.message_id = any (v_set.list);
            perform pgq._admit_heads(
                v_queue, pgq._join_groups(v_queue.queue_id, v_set.list, v_set.failures),
                v_set.failures, v_now);
        else
            perform pgq._enqueue(v_queue, v_set.ids, 0, v_set.failures, false, v_set.expired);
        end if;
        insert into pgq.journal (at, queue_id, event, attempt, size, holder, client, ids)
        values (v_now, v_queue.queue_id, 'replay', 0, v_set.size,
                nullif(current_setting('application_name'), ''), inet_client_addr(), v_set.ids);
    end loop;
    insert into pgq.outcome (queue_id, event, size)
    values (v_queue.queue_id, 'replay', cardinality(v_letters));
    return cardinality(v_letters);
end
$$;
comment on function pgq.replay(text, jsonb, int, boolean, pgq.caller) is
    'Puts dead letters of a queue that match the filter, at most n, back into the queue with all '
    'their attempts, the oldest first. Returns how many; dry_run only counts. What fails again '
    'comes back with its replay_count and its whole history.';
revoke all on function pgq.replay(text, jsonb, int, boolean, pgq.caller) from public;
