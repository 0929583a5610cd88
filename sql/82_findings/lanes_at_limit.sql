-- Lanes of a queue that have messages and are at their limit, and since when the first one waits.
create or replace function pgq._lanes_at_limit(limits pgq.queue_limit, now timestamptz)
returns table (lane text, since timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select pgq._lane_text(l), m.published_at
        from pgq.lane l
        cross join lateral (select pgq._lane_flow(l.label) as flow) c
        cross join lateral (
            select lower(r.ids) as id from pgq.ready r where r.lane_id = l.lane_id
            order by r.rank limit 1
        ) h
        join pgq.message m on m.id = h.id
        where l.queue_id = limits.queue_id
          and (limits.lane_max_leased <= (
                   select coalesce(sum(e.size), 0) from pgq.lease e
                   where e.queue_id = limits.queue_id and e.flow = c.flow)
               or 2 * pgq._tokens((
                   select max(f.full_at) from pgq.flow f
                   where f.queue_id = limits.queue_id and f.lane = c.flow), limits.lane_step,
                   pgq._burst(limits.lane_rate, limits.lane_burst), _lanes_at_limit.now)
                   < pgq._burst(limits.lane_rate, limits.lane_burst));
end
$$;
comment on function pgq._lanes_at_limit(pgq.queue_limit, timestamptz) is
    'Lanes of a queue that have messages and are at their limit.';
