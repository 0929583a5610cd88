-- Delivers messages of one topic to the queues that receive them. Queues that had a message with
-- the same dedup key are in had_queues, with the message in had_ids (see pgq._duplicates). A
-- priority is given if the messages share it and need nothing special. Returns the messages of
-- ordering groups, with their queues, for _join_queues when all topics are done.
create or replace function pgq._route_topic(
    topic text, message_ids bigint[], had_ids bigint[], had_queues int[], keyed boolean,
    priority int, owner boolean, now timestamptz, out ids bigint[], out queues int[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route;
    v_found pgq._hits;
    v_match record;
    v_queue pgq.queue;
    v_ids bigint[];
begin
    ids := '{}';
    queues := '{}';
    loop
        v_route := pgq._route_of(topic, owner);
        v_found := case when v_route.fields is not null then
            pgq._find_bindings(v_route, message_ids, now) end;
        for v_match in
            -- Filter by filter: PostgreSQL caches 32 compiled regular expressions, so to test all
            -- filters on each message would take ten times as long if more have patterns.
            with message as materialized (
                select m from unnest(message_ids) u (id) join pgq.message m on m.id = u.id
                where v_route.binding_ids <> '{}'
            ), hit as materialized (
                select b.queue_id, b.binding_id, b.counted, n.id
                from pgq.binding b
                -- decompressed once for all messages: see pgq._find_filter
                cross join lateral (select (array[b.path])[1] as path offset 0) f
                cross join lateral (
                    select (c.m).id from message c
                    where pgq._matches(f.path, b.scope, c.m, 1, now) offset 0) n
                where b.binding_id = any (v_route.binding_ids)
                  and v_route.version = (select sum(s.version) from pgq.routing s)
                union all
                select b.queue_id, b.binding_id, b.counted, u.id
                from unnest(v_found.binding_ids, v_found.message_ids) u (binding_id, id)
                join pgq.binding b on b.binding_id = u.binding_id
                where v_route.version = (select sum(s.version) from pgq.routing s)
            ), counted as (
                insert into pgq.binding_hit (binding_id, matches, last_at)
                select h.binding_id, count(*), now from hit h where h.counted group by 1
            )
            select r.ids, (  -- not a join: that would read all queues
                       select q from pgq.queue q where q.queue_id = r.queue_id) as queue
            from (
                select h.queue_id, array_agg(distinct h.id) as ids from hit h group by 1
                union all
                select u, message_ids from unnest(v_route.queue_ids) u
                where v_route.version = (select sum(s.version) from pgq.routing s)
            ) r
            order by r.queue_id
        loop
            v_queue := v_match.queue;
            continue when v_queue.queue_id is null;  -- dropped just now
            v_ids := v_match.ids;
            if v_queue.queue_id = any (had_queues) then
                v_ids := pgq._without(v_ids, had_ids, had_queues, v_queue.queue_id);
            elsif keyed and v_queue.dedup <> 'keep' then
                v_ids := pgq._settle_keys(v_queue, v_ids, now);
                v_queue.set_size := 1;  -- the next message with the key finds the row by its rank
            end if;
            continue when v_ids = '{}';
            if priority is not null and v_queue.lane_keys is null then
                perform pgq._add_ready(v_queue.queue_id, null, priority, false, 0, null, null,
                                       false, v_ids, v_queue.set_size);
            else
                v_ids := pgq._deliver(v_queue, v_ids, now);
                ids := ids || v_ids;
                queues := queues || array_fill(v_queue.queue_id, array[cardinality(v_ids)]);
            end if;
            perform pgq._wake(v_queue.queue_id);
        end loop;
        -- Nothing was routed if the bindings have changed since the route was read: try again.
        exit when found or v_route.version = (select sum(s.version) from pgq.routing s);
    end loop;
end
$$;
comment on function pgq._route_topic(
    text, bigint[], bigint[], int[], boolean, int, boolean, timestamptz) is
    'Delivers messages of one topic to the queues that receive them.';
