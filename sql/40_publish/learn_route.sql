-- Finds out who receives a topic and remembers it; QU005 if nobody does.
create or replace function pgq._learn_route(topic text) returns pgq.route
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route;
begin
    perform pgq._check_topic(topic);
    -- One snapshot for all of it: an answer must not carry a later version than its bindings.
    select _learn_route.topic, min(r.version),
           coalesce(array_agg(b.queue_id) filter (where b.plain and b.mode = 'queue'), '{}'),
           coalesce(array_agg(b.binding_id) filter (where not b.plain and b.mode = 'queue'), '{}'),
           max(b.dedup_window)
    into v_route
    from pgq.routing r
    join (
        select c.binding_id, c.queue_id, q.mode, q.dedup_window,
               c.path is null and q.lane_keys is null
               and not bool_or(c.counted) over (partition by c.queue_id) as plain,
               -- A binding without a filter makes the queue's others superfluous, but they count.
               c.counted or not bool_or(c.path is null) over (partition by c.queue_id)
               or row_number() over (partition by c.queue_id order by c.path is not null) = 1
                   as needed
        from pgq.binding c join pgq.queue q on q.queue_id = c.queue_id
        where (c.regex is null and c.pattern = topic) or topic ~ c.regex
    ) b on b.needed;
    if v_route.version is null then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = 'Create one with pgq.create_queue(name) or pgq.subscribe(name, pattern).';
    end if;
    insert into pgq.route values (v_route.*);
    return v_route;
end
$$;
comment on function pgq._learn_route(text) is 'Who receives a topic, or QU005.';
revoke all on function pgq._learn_route(text) from public;
