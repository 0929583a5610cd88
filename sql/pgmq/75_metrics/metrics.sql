-- Counts of queues. Lengths are sums over a few rows; the total is counted in the log.
create or replace function pgmq._metrics(
    queue_name text default null, caller pgq.caller default current_user
) returns setof pgmq.metrics_result
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queues int[] := pgq._visible_queues(caller);
    v_now timestamptz := pgq.now();
begin
    if _metrics.queue_name is not null then
        perform pgq._queue_for(caller, 'consume', _metrics.queue_name);
    end if;
    return query
        with total as materialized (
            -- Not those of an older queue of that name.
            select m.topic, count(*) as messages
            from pgq.message m
            join pgq.queue t on t.name = m.topic and m.published_at >= t.created_at
            where _metrics.queue_name is null or m.topic = _metrics.queue_name group by 1
        )
        select q.name, s.length,
               extract(epoch from v_now - (
                   select m.published_at from pgq.message m where m.id = s.newest))::int,
               extract(epoch from v_now - (
                   select m.published_at from pgq.message m where m.id = s.oldest))::int,
               coalesce(t.messages, 0), v_now, s.visible, null::bigint
        from pgq.queue q
        left join total t on t.topic = q.name
        cross join lateral (
            select coalesce(sum(x.size), 0)::bigint as length,
                   coalesce(sum(x.size) filter (where x.vt <= v_now), 0)::bigint as visible,
                   min(lower(x.ids)) as oldest, max(upper(x.ids)) - 1 as newest
            from (
                select r.size, r.ids, v_now as vt
                from pgq.ready r where r.queue_id = q.queue_id
                union all
                select c.size, c.ids, c.due_at
                from pgq.scheduled c where c.queue_id = q.queue_id
                union all
                select l.size, l.ids, l.until from pgq.lease l where l.queue_id = q.queue_id
            ) x
        ) s
        where q.mode = 'queue' and (v_queues is null or q.queue_id = any (v_queues))
          and (_metrics.queue_name is null or q.name = _metrics.queue_name)
        order by q.queue_id;
end
$$;
comment on function pgmq._metrics(text, pgq.caller) is 'Counts of one queue, or of all.';

create or replace function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_result pgmq.metrics_result;
begin
    select * into v_result from pgmq._metrics(coalesce(queue_name, ''));
    return v_result;
end
$$;
comment on function pgmq.metrics(text) is 'Counts of a queue.';
