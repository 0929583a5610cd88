-- Puts a message back that was taken out of its queue, until the time of other messages with its
-- dedup key, but never earlier than it was due. Returns when it is due.
create or replace function pgq._postpone(
    queue pgq.queue, old pgq._withdrawn, by int8multirange, due timestamptz, now timestamptz
) returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_due timestamptz := greatest(due, old.due_at);
    v_group text;
begin
    perform pgq._record(queue.queue_id, 'postpone', 0, old.ids + by,
                        format('message %s until %s', lower(old.ids), v_due));
    -- In a group backlog, messages wait for their turn and their time. Heads have left the backlog.
    select h.group_key into v_group
    from pgq.message m join pgq.group_head h
        on h.queue_id = queue.queue_id and h.group_key = m.group_key
    where old.grouped and m.id = lower(old.ids) and h.message_id <> m.id;
    if v_group is not null then
        insert into pgq.group_line (queue_id, group_key, message_id, failures, due_at)
        values (queue.queue_id, v_group, lower(old.ids), old.failures, v_due);
    elsif v_due > now then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
        values (queue.queue_id, v_due, old.attempt, old.size, old.grouped, old.failures, old.ids);
    else
        perform pgq._enqueue(queue, old.ids, 0, old.failures, old.grouped, back => false);
    end if;
    return v_due;
end
$$;
comment on function pgq._postpone(
    pgq.queue, pgq._withdrawn, int8multirange, timestamptz, timestamptz) is
    'Puts a message back until the time of other messages with its dedup key.';
