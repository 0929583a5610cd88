-- What happened to a message, oldest first.
create or replace function pgq.history(message_id bigint, caller pgq.caller default current_user)
returns table (at timestamptz, queue text, event text, attempt int, holder text, client inet,
               lease_id bigint, note text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues int[] := pgq._visible_queues(caller);
begin
    return query
        select h.at, q.name, h.event, h.attempt, h.holder, h.client, h.lease_id, h.note
        from (
            select u.*, bool_or(u.queue_id = any (v_queues)) over () as known
            from (
                select m.published_at as at, null::int as queue_id, 'publish' as event,
                       null::int as attempt, m.sender as holder, null::inet as client,
                       null::bigint as lease_id, m.topic as note, 1 as step
                from pgq.message m where m.id = history.message_id
                union all
                select distinct d.published_at, null::int, 'publish', null::int, d.sender,
                       null::inet, null::bigint, d.topic, 1
                from pgq.letter d
                where d.message_id = history.message_id
                  and not exists (select from pgq.message m where m.id = history.message_id)
                union all
                select j.claimed_at, j.queue_id, 'claim', j.attempt, j.holder, j.client, j.lease_id,
                       null, 2
                from pgq.journal j
                where j.ids @> history.message_id and j.claimed_at is not null
                union all
                select j.at, j.queue_id, j.event, j.attempt, j.holder, j.client, j.lease_id,
                       j.error, 3
                from pgq.journal j where j.ids @> history.message_id
                union all
                select l.claimed_at, l.queue_id, 'claim', l.attempt, l.holder, l.client, l.lease_id,
                       case when l.until = 'infinity' then 'held without end'
                            else 'held until ' || l.until end, 2
                from pgq.lease l where l.ids @> history.message_id
                union all
                select null, r.queue_id, 'ready', r.attempt, null, null, null, null, 4
                from pgq.ready r where r.ids @> history.message_id
                union all
                select null, s.queue_id, 'scheduled', s.attempt, null, null, null,
                       'due ' || s.due_at, 4
                from pgq.scheduled s where s.ids @> history.message_id
                union all
                select null, g.queue_id, 'waiting', 0, null, null, null,
                       'for its turn in ' || g.group_key, 4
                from pgq.group_line g where g.message_id = history.message_id
                union all
                select d.failed_at, d.queue_id, 'dead', d.attempts, d.holder, d.client, null,
                       concat_ws(': ', d.reason, d.error), 4
                from pgq.letter d where d.message_id = history.message_id
            ) u
        ) h
        left join pgq.queue q on q.queue_id = h.queue_id
        -- The publication is shown to roles that may consume a queue that has or had the message.
        where v_queues is null or h.queue_id = any (v_queues) or (h.queue_id is null and h.known)
        -- A claim takes back an expired lease and claims again at the same moment.
        order by h.at nulls last, h.attempt nulls first, h.step;
end
$$;
comment on function pgq.history(bigint, pgq.caller) is
    'The history of a message, oldest event first: publish, claim, ack, nack, release, bury, '
    'timeout, expire, replay, discard, and where it is now. It reads the audit log, so it goes '
    'back as far as the log. A role sees the events in the queues that it may consume.';
