-- Lists the messages of a queue in one state: scheduled and leased ones by the end of that state,
-- dead ones newest first. Reads sets one by one until n messages match.
create or replace function pgq.messages(
    queue text, state text default 'ready', filter jsonb default null, n int default 50,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', messages.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_now timestamptz := pgq.now();
    v_sets refcursor;
    v_set record;
    v_left int := n;
    v_found int;
begin
    if n is null or n not between 1 and 10000 then
        raise exception 'n must be between 1 and 10000, not %', coalesce(n::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'n is the most messages to list.';
    end if;
    case state
        when 'ready' then
            return query
                select null::bigint, m.id, m.topic, m.priority, null::int, m.headers, m.payload,
                       m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                       m.published_at, m.expires_at, null::timestamptz
                from pgq.peek(messages.queue, filter, n, caller) m;
            return;
        when 'dead' then
            return query
                select null::bigint, d.message_id, d.topic, d.priority, d.attempts, d.headers,
                       d.payload, d.sender, d.recipient, d.reply_to, d.correlation_id, d.group_key,
                       d.published_at, d.expires_at, d.failed_at
                from pgq.letter d
                where d.queue_id = v_queue.queue_id
                  and pgq._test_filter(
                      v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority,
                      d.sender, d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts,
                      d.published_at, d.expires_at, d.message_id, v_now)
                order by d.failed_at desc, d.dead_letter_id desc limit n;
            return;
        when 'scheduled' then
            open v_sets for
                select s.ids, s.attempt, nullif(s.due_at, 'infinity') as until,
                       null::bigint as lease_id
                from pgq.scheduled s where s.queue_id = v_queue.queue_id order by s.due_at;
        when 'leased' then
            open v_sets for
                select l.ids, l.attempt, nullif(l.until, 'infinity') as until, l.lease_id
                from pgq.lease l where l.queue_id = v_queue.queue_id
                order by l.until, l.lease_id, l.part;
        when 'waiting' then
            open v_sets for
                select int8multirange(int8range(g.message_id, g.message_id + 1)) as ids,
                       0 as attempt, nullif(g.due_at, '-infinity') as until,
                       null::bigint as lease_id
                from pgq.group_line g where g.queue_id = v_queue.queue_id
                order by g.group_key, g.message_id;
        else
            raise exception 'a message cannot be "%"', state
                using errcode = 'invalid_parameter_value',
                      hint = 'Name ready, scheduled, leased, waiting or dead.';
    end case;
    while v_left > 0 loop
        fetch v_sets into v_set;
        exit when not found;
        return query
            select v_set.lease_id, m.id, m.topic, m.priority, v_set.attempt, m.headers, m.payload,
                   m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                   m.published_at, m.expires_at, v_set.until
            from unnest(v_set.ids) r
            cross join lateral (
                -- OFFSET 0, as in pgq.peek: else the planner may scan the whole log in id order.
                select e.* from pgq.message e where e.id >= lower(r) and e.id < upper(r) offset 0
            ) m
            where pgq._matches(v_filter.path, v_filter.scope, m::pgq.message, v_set.attempt, v_now)
            order by m.id limit v_left;
        get diagnostics v_found = row_count;
        v_left := v_left - v_found;
    end loop;
    close v_sets;
end
$$;
comment on function pgq.messages(text, text, jsonb, int, pgq.caller) is
    'Lists at most n messages of a queue that match the filter and are in a state: ready (in '
    'delivery order), scheduled (delayed, or waiting for a retry), leased, waiting (for their '
    'turn in an ordering group) or dead (newest first). lease_until is the due time of a '
    'scheduled message, the expiry of a lease, or the time of a dead letter. attempt is the '
    'number of deliveries so far, null for ready messages. Claims and locks nothing. Works on a '
    'standby.';
