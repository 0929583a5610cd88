-- For messages that were just published with dedup keys: the ids of the messages that stay. If a
-- topic has a single queue, which replaces or postpones, another message may stay instead.
create or replace function pgq._key_holders(topic text, dedup_keys text[], ids bigint[])
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route := pgq._route_of(topic);
    v_queues int[];
begin
    if not v_route.replacing or v_route.receivers <> '{}' then
        return ids;
    end if;
    v_queues := array(
        select unnest(v_route.queue_ids)
        union
        select b.queue_id from pgq.binding b where b.binding_id = any (v_route.binding_ids));
    if cardinality(v_queues) <> 1 then
        return ids;
    end if;
    return array(
        select coalesce(d.message_id, u.id)
        from unnest(_key_holders.ids, _key_holders.dedup_keys) with ordinality u (id, key, i)
        left join pgq.dedup d on d.queue_id = v_queues[1] and d.topic = _key_holders.topic
            and d.dedup_key = u.key
        order by u.i);
end
$$;
comment on function pgq._key_holders(text, text[], bigint[]) is
    'The ids of messages that remain after deduplication.';
