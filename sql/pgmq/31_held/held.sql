-- The messages that a queue holds, as the table pgmq.q_<queue> of pgmq has them.
create or replace function pgmq._held(queue_name text, caller pgq.caller default current_user)
returns setof pgmq.message_record
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
begin
    return query
        select m.id, s.attempt, m.published_at, s.claimed_at, coalesce(s.vt, m.published_at),
               nullif(m.payload, 'null'), pgmq._headers_out(m.headers)
        from (
            select r.ids, r.attempt, null::timestamptz as claimed_at, null::timestamptz as vt
            from pgq.ready r where r.queue_id = v_queue.queue_id
            union all
            select c.ids, c.attempt, null, c.due_at
            from pgq.scheduled c where c.queue_id = v_queue.queue_id
            union all
            select l.ids, l.attempt, l.claimed_at, l.until
            from pgq.lease l where l.queue_id = v_queue.queue_id
        ) s
        cross join lateral pgq._read_ids(null, s.attempt, s.vt, s.ids) m
        order by m.id;
end
$$;
comment on function pgmq._held(text, pgq.caller) is 'The messages that a queue holds.';
