-- Puts messages that come back to a queue into their ordering groups: at the head if the group has
-- not moved on from there, else in line. If it was to move on from one of these, it no longer is.
create or replace function pgq._rejoin_groups(
    queue pgq.queue, ids bigint[], failures jsonb, due_at timestamptz, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.group_stall s
    where s.queue_id = queue.queue_id and s.message_id = any (_rejoin_groups.ids);
    perform pgq._admit_heads(
        queue, pgq._join_groups(queue.queue_id, ids, failures, due_at), failures, now, due_at);
end
$$;
comment on function pgq._rejoin_groups(
    pgq.queue, bigint[], jsonb, timestamptz, timestamptz) is
    'Puts messages that come back to a queue into their ordering groups.';
