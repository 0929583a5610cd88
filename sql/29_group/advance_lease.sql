-- Messages of groups that a lease held were ended: the next messages become heads. If the lease
-- holds the next message of a group too (runs), this message becomes the head and stays leased.
create or replace function pgq._advance_lease(
    queue pgq.queue, ended pgq.lease, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_found record;
    v_head record;
    v_done bigint[] := '{}';
begin
    if not ended.runs then
        perform pgq._advance_groups(queue, ended.ids, now);
        return;
    end if;
    select count(*) as size, array_agg(h.group_key) filter (where h.message_id = m.id) as keys
    into v_found
    from unnest(ended.ids) r
    join pgq.message m on m.id >= lower(r) and m.id < upper(r)
    left join pgq.group_head h on h.queue_id = queue.queue_id and h.group_key = m.group_key;
    if v_found.size < ended.size then
        perform pgq._refuse_snapshot();
    end if;
    for v_head in
        select h.group_key, h.message_id, n.id as next_id
        from pgq.group_head h
        left join (
            select m.group_key, min(m.id) as id from pgq.lease l cross join unnest(l.ids) r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            where l.lease_id = ended.lease_id and l.part = ended.part group by 1
        ) n on n.group_key = h.group_key
        where h.queue_id = queue.queue_id and h.group_key = any (v_found.keys)
        order by h.group_key
    loop
        if v_head.next_id is null then
            v_done := v_done || v_head.message_id;
        else
            -- Waits for a publisher of the group, unlike other acks: a deferred advance could not
            -- say that the next message is leased. In the order of keys, as publishers do.
            update pgq.group_head h set message_id = v_head.next_id
            where h.queue_id = queue.queue_id and h.group_key = v_head.group_key;
        end if;
    end loop;
    perform pgq._advance_groups(queue, pgq._set_of(v_done), now);
end
$$;
comment on function pgq._advance_lease(pgq.queue, pgq.lease, timestamptz) is
    'Advances the groups of messages of a lease that were ended.';
