-- Locks rows of lanes that hold messages which match a filter, as many as each lane is to give.
create or replace function pgq._lane_matches(claim pgq._claim, heads pgq._head[], filter pgq.filter)
returns table (place tid, i bigint, ids int8multirange)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select h.place, h.i, h.ids
        from (
            select x.place, x.i, range_agg(int8range(x.id, x.id + 1)) as ids
            from unnest(heads) with ordinality
                c (lane_id, lane, place, size, suspect, full_at, quota, i)
            cross join lateral (
                select t.ctid as place, m.id, c.i from pgq.ready t
                cross join lateral unnest(t.ids) u (ids)
                join pgq.message m on m.id >= lower(u.ids) and m.id < upper(u.ids)
                where t.lane_id = c.lane_id and t.suspect = c.suspect
                  and t.unmatched_by is distinct from coalesce(filter.filter_id, 0)
                  and (t.expires_at is null or t.expires_at > claim.claimed_at)
                  and pgq._matches(filter.path, filter.scope, m, t.attempt + 1, claim.claimed_at)
                order by t.rank limit c.quota
            ) x
            group by 1, 2
        ) h
        cross join lateral (
            select from pgq.ready t where t.ctid = h.place for update skip locked) l;
end
$$;
comment on function pgq._lane_matches(pgq._claim, pgq._head[], pgq.filter) is
    'Locks rows of lanes that hold messages which match a filter.';
