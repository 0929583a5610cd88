-- The queues with dedup = keep that receive messages of a topic, and the dedup window of each.
-- A route whose bindings are found by anchors does not list the queues: it would have to list
-- thousands.
create or replace function pgq._receivers(route pgq.route)
returns table (queue_id int, span interval)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if route.fields is null then
        return query select u.* from unnest(route.receivers, route.windows) u;
    else
        return query
            select q.queue_id, pgq._bounded(q.dedup_window, pgq._limit('policy_years'))
            from pgq.queue q
            where q.dedup = 'keep' and q.queue_id in (
                select b.queue_id from pgq.binding b
                where not b.pending
                  and (b.regex is null and b.pattern = route.topic or route.topic ~ b.regex));
    end if;
end
$$;
comment on function pgq._receivers(pgq.route) is
    'The queues with dedup = keep that receive messages of a topic, and their dedup windows.';
