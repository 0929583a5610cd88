-- The heads with these ids have ended: the next messages of their groups become heads.
create or replace function pgq._advance_groups(
    queue pgq.queue, ids int8multirange, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_next record;
    v_heads bigint[] := '{}';
    v_count int := 0;
begin
    for v_message in
        select m.id, m.group_key from unnest(_advance_groups.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where m.group_key is not null order by m.group_key, m.id
    loop
        v_count := v_count + 1;
        -- A publisher may hold the group and be about to add to its backlog. An ack does not wait
        -- for it: it stores a deferred advance, for a claim after the publisher's commit.
        v_next := pgq._advance_group(queue.queue_id, v_message.group_key, v_message.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (queue.queue_id, v_message.group_key, v_message.id);
        elsif num_nonnulls(v_next.failures, v_next.due_at) > 0 then
            perform pgq._admit_heads(
                queue, array[v_next.next_id], v_next.failures, now, v_next.due_at);
        elsif v_next.next_id is not null then
            v_heads := v_heads || v_next.next_id;
        end if;
    end loop;
    if v_heads <> '{}' then
        perform pgq._admit_heads(queue, v_heads, null, now);
    end if;
    if v_count < pgq._set_size(_advance_groups.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._advance_groups(pgq.queue, int8multirange, timestamptz) is
    'Makes the next message of each group its head, after the old head has ended.';
