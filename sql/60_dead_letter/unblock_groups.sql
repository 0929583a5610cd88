-- Advances groups that were blocked by dead letters, after these were deleted. Ids and keys are
-- parallel arrays; a key may be null.
create or replace function pgq._unblock_groups(
    queue pgq.queue, ids bigint[], keys text[], now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group record;
    v_next record;
begin
    for v_group in
        select u.id, u.key from unnest(_unblock_groups.ids, keys) u (id, key)
        where u.key is not null order by u.key, u.id
    loop
        v_next := pgq._advance_group(queue.queue_id, v_group.key, v_group.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (queue.queue_id, v_group.key, v_group.id);
        elsif v_next.next_id is not null then
            perform pgq._admit_heads(
                queue, array[v_next.next_id], v_next.failures, now, v_next.due_at);
        end if;
    end loop;
end
$$;
comment on function pgq._unblock_groups(pgq.queue, bigint[], text[], timestamptz) is
    'Advances groups that dead letters have blocked.';
