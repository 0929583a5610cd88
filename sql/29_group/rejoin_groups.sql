-- Puts messages that return to a queue into their ordering groups: as the head if the group has no
-- other head now, otherwise into the group backlog. Deletes deferred advances from these messages.
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
    'Puts messages that return to a queue into their ordering groups.';
