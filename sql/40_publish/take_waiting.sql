-- Takes a message that was never delivered out of a queue; nothing if it does not wait there, or if
-- another transaction has it at the moment: a claim, or a publisher of its ordering group. Never
-- waits for a lock. Messages with a dedup key have ready rows of their own in queues that replace
-- or postpone, so a rank and a time find them, whatever the backlog.
create or replace function pgq._take_waiting(queue_id int, message_id bigint, due timestamptz)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_message record;
    v_ids int8multirange := int8multirange(int8range(message_id, message_id + 1));
    v_places tid[];
begin
    select m.priority, m.group_key into v_message from pgq.message m
    where m.id = _take_waiting.message_id;
    if v_message.group_key is not null then
        -- The group must not move on meanwhile.
        perform from pgq.group_head h
        where h.queue_id = _take_waiting.queue_id and h.group_key = v_message.group_key
        for update skip locked;
        if not found then
            return;
        end if;
        return query
            delete from pgq.group_line g
            where g.queue_id = _take_waiting.queue_id and g.group_key = v_message.group_key
              and g.message_id = _take_waiting.message_id
            returning g.due_at, 0, g.failures, true, 1, v_ids;
        if found then
            return;
        end if;
    end if;
    -- Messages move from the scheduled rows to the ready rows: in this order none is missed.
    v_places := array(
        select s.ctid from pgq.scheduled s
        where s.queue_id = _take_waiting.queue_id and s.due_at = due and s.attempt = 0
          and s.ids @> _take_waiting.message_id);
    if v_places <> '{}' then
        return query select * from pgq._take_scheduled(queue_id, v_places, array[v_ids], null);
        return;
    end if;
    v_places := array(
        select r.ctid from pgq.ready r
        where r.queue_id = _take_waiting.queue_id and r.attempt = 0
          and r.rank in (pgq._rank(v_message.priority, false, _take_waiting.message_id),
                         pgq._rank(v_message.priority, true, _take_waiting.message_id))
          and r.ids @> _take_waiting.message_id);
    return query select * from pgq._take_ready(queue_id, v_places, array[v_ids], null);
end
$$;
comment on function pgq._take_waiting(int, bigint, timestamptz) is
    'Takes a message that was never delivered out of a queue.';
