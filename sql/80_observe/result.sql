-- The outcome of a message, a row for each queue that has or had it.
create or replace function pgq.result(message_id bigint, caller pgq.caller default current_user)
returns table (queue text, state text, result jsonb, error text, at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_visible int[] := pgq._visible_queues(caller);
    v_queues int[] := v_visible;
    v_message pgq.message;
begin
    select m.* into v_message from pgq.message m where m.id = result.message_id;
    -- The publisher of a message may see how it ended, but not the names of others' queues.
    if v_message.publisher = caller::text then
        v_queues := null;
    end if;
    return query
        select case when v_visible is null or x.queue_id = any (v_visible) then q.name end,
               x.state, x.result, x.error, x.at
        from (
            select j.queue_id, 'done' as state, j.result, null::text as error, j.at
            from pgq.journal j
            where lower(j.ids) = result.message_id and j.result is not null
            union all
            select d.queue_id, 'dead', null, concat_ws(': ', d.reason, d.error), d.failed_at
            from pgq.queue p join pgq.dead_letter d
                on d.queue_id = p.queue_id and d.message_id = result.message_id
            union all
            select h.queue_id, h.state, null, null, null
            from (
                select r.queue_id, 'waiting' as state, r.ids from pgq.ready r
                union all
                select s.queue_id, 'waiting', s.ids from pgq.scheduled s
                union all
                select l.queue_id, 'working', l.ids from pgq.lease l
                union all
                select g.queue_id, 'waiting',
                       int8multirange(int8range(g.message_id, g.message_id + 1))
                from pgq.group_line g where g.message_id = result.message_id
            ) h
            where h.ids @> result.message_id
        ) x
        join pgq.queue q on q.queue_id = x.queue_id
        where v_queues is null or x.queue_id = any (v_queues)
        order by q.name, x.at;
    -- In the log but in none of these states: it was acknowledged or cancelled without a result.
    if not found and v_message.id is not null
       and (v_queues is null or pgq._is_received(v_queues, v_message))
    then
        return query select null::text, 'done', null::jsonb, null::text, null::timestamptz;
    end if;
end
$$;
comment on function pgq.result(bigint, pgq.caller) is
    'The outcome of a message, a row for each queue that has or had it: done with the result of '
    'pgq.finish, dead with the error, waiting or working. Done without queue and result: the '
    'message was acknowledged or cancelled. No row: the message is no longer in the log. A role '
    'sees the queues that it may consume. For a message that it has published it also sees the '
    'other queues, without their names.';
