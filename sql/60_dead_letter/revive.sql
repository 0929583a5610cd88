-- Puts messages of dead letters into a queue, at their due time: a part of replay.
create or replace function pgq._revive(
    queue pgq.queue, ids bigint[], failures jsonb, expired boolean, group_key text,
    due_at timestamptz, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if group_key is not null then
        perform pgq._rejoin_groups(queue, ids, failures, due_at, now);
    elsif due_at > now then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, failures, ids)
        values (queue.queue_id, _revive.due_at, 0, cardinality(_revive.ids), _revive.failures,
                pgq._set_of(_revive.ids));
        perform pgq._wake(queue.queue_id);
    else
        perform pgq._enqueue(queue, pgq._set_of(_revive.ids), 0, _revive.failures, false, expired);
    end if;
end
$$;
comment on function pgq._revive(
    pgq.queue, bigint[], jsonb, boolean, text, timestamptz, timestamptz) is
    'Puts messages of dead letters into a queue.';
