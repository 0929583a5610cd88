-- The queues that receive a topic: from the routing cache, or computed now; QU005 if there is none.
-- Only this function and the fast path of publish look up routes. suggest: the caller is the
-- owner, who may see similar topics.
create or replace function pgq._route_of(topic text, suggest boolean default false)
returns pgq.route
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route;
begin
    select r.* into v_route from pgq.route r
    where r.topic = _route_of.topic and r.version = (select sum(s.version) from pgq.routing s)
    limit 1;  -- two publishers may have stored it at once
    if found then
        return v_route;
    end if;
    perform pgq._check_topic(topic);
    -- One statement, so one snapshot: a route must not have a later version than its bindings.
    select _route_of.topic, min(r.version),
           coalesce(array_agg(b.queue_id) filter (where b.plain and b.mode = 'queue'), '{}'),
           coalesce(array_agg(b.binding_id) filter (where not b.plain and b.mode = 'queue'), '{}'),
           coalesce(array_agg(b.queue_id) filter (where b.first and b.dedup = 'keep'), '{}'),
           coalesce(array_agg(pgq._bounded(b.dedup_window, pgq._limit('policy_years')))
                        filter (where b.first and b.dedup = 'keep'), '{}'),
           null::pgq._field[], null::text[],
           coalesce(bool_or(b.laned) filter (where b.plain and b.mode = 'queue'), false),
           bool_or(b.dedup <> 'keep')
    into v_route
    from (select sum(s.version) as version from pgq.routing s) r
    join (
        select c.binding_id, c.queue_id, q.mode, q.dedup_window, q.dedup,
               q.lane_keys is not null as laned,
               c.path is null
               and (q.lane_keys is null
                    or bool_and(q.lane_keys is not null or q.mode = 'archive') over ())
               and not bool_or(c.counted) over (partition by c.queue_id) as plain,
               -- A binding without a filter makes the queue's others superfluous, unless counted.
               c.counted or not bool_or(c.path is null) over (partition by c.queue_id)
               or row_number() over (
                   partition by c.queue_id order by c.path is not null, c.binding_id) = 1
                   as needed,
               row_number() over (
                   partition by c.queue_id order by c.path is not null, c.binding_id) = 1 as first
        from pgq.binding c join pgq.queue q on q.queue_id = c.queue_id
        where ((c.regex is null and c.pattern = topic) or topic ~ c.regex) and not c.pending
    ) b on b.needed;
    if v_route.version is null then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = pgq._did_you_mean(
                             case when suggest then current_user end, topic, true)
                      || 'Create one with pgq.create_queue(queue) or '
                         'pgq.subscribe(queue, pattern).';
    end if;
    if cardinality(v_route.binding_ids) >= pgq._limit('standing_filters') then
        v_route := pgq._index_route(v_route);
    end if;
    insert into pgq.route values (v_route.*);
    return v_route;
end
$$;
comment on function pgq._route_of(text, boolean) is 'The queues that receive a topic, or QU005.';
