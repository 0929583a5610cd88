-- Puts dead letters back into their queue, or into another one, the oldest first.
create or replace function pgq.replay(
    queue text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    cause jsonb default null,
    to_queue text default null,
    per_second int default null,
    patch jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', replay.queue);
    v_to pgq.queue := v_queue;
    v_now timestamptz := pgq.now();
    v_letters bigint[];
    v_ids bigint[];
    v_gone record;
    v_set record;
    v_count int := 0;
begin
    if per_second < 1 then
        raise exception 'per_second must be positive, not %', per_second
            using errcode = 'invalid_parameter_value', hint = 'Leave it out to replay at once.';
    end if;
    if to_queue is not null then
        v_to := pgq._destination(caller, v_queue, to_queue);
    end if;
    v_letters := pgq._dead_letters(v_queue.queue_id, filter, cause, n, not dry_run);
    if to_queue is not null and patch is null then
        if not dry_run then
            -- As in pgq.move: the other queue must not get a message twice.
            perform pgq._lock('replay');
            lock table pgq.message in row exclusive mode;
        end if;
        v_letters := array(
            select d.dead_letter_id from pgq.letter d
            where d.dead_letter_id = any (v_letters)
              and not pgq._held_by(v_to.queue_id) @> d.message_id
            order by d.failed_at, d.dead_letter_id);
    end if;
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    v_ids := pgq._restore_messages(v_letters, patch);
    select array_agg(d.message_id) as ids, array_agg(d.group_key) as keys into v_gone
    from pgq.letter d where d.dead_letter_id = any (v_letters);
    if patch is not null and to_queue is null then
        -- If a dead letter blocks its group, the new message becomes the head instead.
        update pgq.group_head h set message_id = u.id
        from unnest(v_letters, v_ids) u (letter, id)
        join pgq.letter d on d.dead_letter_id = u.letter
        where h.queue_id = v_queue.queue_id and h.group_key = d.group_key
          and h.message_id = d.message_id;
    end if;
    for v_set in
        with gone as (
            delete from pgq.letter d where d.dead_letter_id = any (v_letters) returning d.*
        ), numbered as (
            select g.*, u.id as new_id,
                   v_now + coalesce((row_number() over (order by g.failed_at, g.dead_letter_id) - 1)
                       / per_second, 0) * interval '1 s' as due_at
            from gone g join unnest(v_letters, v_ids) u (letter, id) on u.letter = g.dead_letter_id
        )
        -- Ordered by group and id, because the first message that joins a group becomes its head.
        select x.failures, coalesce(x.expires_at <= v_now, false) as expired, x.group_key, x.due_at,
               case when patch is not null then 'changed from message ' || x.message_id end as note,
               range_agg(int8range(x.message_id, x.message_id + 1)) as old,
               array_agg(x.new_id order by x.new_id) as ids
        from numbered x group by 1, 2, 3, 4, 5 order by x.group_key, min(x.new_id)
    loop
        perform pgq._revive(
            v_to, v_set.ids,
            pgq._failure(v_set.failures, 'replay', null, null, null, null, v_set.note, v_now),
            v_set.expired, v_set.group_key, v_set.due_at, v_now);
        perform pgq._record(
            v_queue.queue_id, 'replay', 0, v_set.old,
            case when to_queue is not null then 'to ' || v_to.name end);
        if to_queue is not null or patch is not null then
            perform pgq._record(
                v_to.queue_id, 'arrive', 0, pgq._set_of(v_set.ids),
                coalesce(v_set.note, 'from ' || v_queue.name));
        end if;
        v_count := v_count + cardinality(v_set.ids);
    end loop;
    if to_queue is not null then
        perform pgq._unblock_groups(v_queue, v_gone.ids, v_gone.keys, v_now);
    end if;
    return v_count;
end
$$;
comment on function pgq.replay(
    text, jsonb, int, boolean, jsonb, text, int, jsonb, pgq.caller) is
    'Returns dead letters to their queue (redrive), the oldest first, at most n; their attempts '
    'start again. Selects dead letters whose message matches the filter and whose end matches the '
    'cause: a filter over reason, error, attempts, failed_at (text in UTC, such as '
    '2030-01-31T12:00), holder and replay_count. With to_queue they go to that queue instead. '
    'With per_second, that many become due per second from now on. With patch, a JSON merge patch '
    'of the payload, each becomes a new message. Returns how many; dry_run only counts. A message '
    'that fails again keeps its replay_count and its whole history.';
