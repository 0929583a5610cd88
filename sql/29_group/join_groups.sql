-- Puts messages into their ordering groups, in order. If a group has no head, its first message
-- becomes the head and is returned. The others wait in the group backlog.
create or replace function pgq._join_groups(
    queue_id int, ids bigint[], failures jsonb, due_at timestamptz default null)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_head bigint;
    v_heads bigint[] := '{}';
begin
    -- In the order of the keys, so that two publishers with the same groups cannot deadlock. A
    -- publisher that uses a group holds it until it commits: the order of the group is then known.
    for v_message in
        select m.id, m.group_key from unnest(_join_groups.ids) i join pgq.message m on m.id = i
        order by m.group_key, m.id
    loop
        insert into pgq.group_head as h (queue_id, group_key, message_id)
        values (_join_groups.queue_id, v_message.group_key, v_message.id)
        on conflict on constraint group_head_pkey do update set message_id = h.message_id
        returning h.message_id into v_head;
        if v_head = v_message.id then
            v_heads := v_heads || v_head;
        else
            insert into pgq.group_line (queue_id, group_key, message_id, failures, due_at)
            values (_join_groups.queue_id, v_message.group_key, v_message.id,
                    _join_groups.failures, _join_groups.due_at);
        end if;
    end loop;
    return v_heads;
end
$$;
comment on function pgq._join_groups(int, bigint[], jsonb, timestamptz) is
    'Puts messages into their ordering groups and returns those that are heads.';
