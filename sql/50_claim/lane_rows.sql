-- Locks the first rows of some lanes that hold as many messages as each of them is to give, or
-- that many that match a filter. Returns which of their ids to take, and how many of each lane. A
-- row of suspects is taken alone.
create or replace function pgq._lane_rows(
    claim pgq._claim, heads pgq._head[], filter pgq.filter, sure boolean,
    out places tid[], out sets int8multirange[], out size int, out sizes int[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row record;
begin
    size := 0;
    sizes := array_fill(0, array[cardinality(heads)]);
    for v_row in
        select h.place, c.i, case when h.ahead + h.size <= c.quota then h.ids
               else pgq._first_ids(h.ids, c.quota - h.ahead) end as ids,
               least(h.size, c.quota - h.ahead) as size
        from unnest(heads) with ordinality
            c (lane_id, lane, place, size, suspect, full_at, quota, i)
        cross join lateral (
            select r.*, (sum(r.size) over w - r.size)::int as ahead, row_number() over w as n,
                   bool_or(r.suspect) over w as suspected
            from (
                select t.ctid as place, t.rank, t.size, t.ids, t.suspect from pgq.ready t
                where t.lane_id = c.lane_id
                  and (t.expires_at is null or t.expires_at > claim.claimed_at)
                order by t.rank limit 1 + (c.quota - 1) / c.size for update skip locked
            ) r
            window w as (order by r.rank rows unbounded preceding)
        ) h
        where sure and h.ahead < c.quota and (h.n = 1 or not h.suspected)
        union all
        select m.place, m.i, m.ids, pgq._set_size(m.ids)
        from pgq._lane_matches(claim, heads, filter) m where not sure
    loop
        places := places || v_row.place;
        sets := sets || v_row.ids;
        size := size + v_row.size;
        sizes[v_row.i] := sizes[v_row.i] + v_row.size;
    end loop;
end
$$;
comment on function pgq._lane_rows(pgq._claim, pgq._head[], pgq.filter, boolean) is
    'Locks rows of lanes that hold as many messages as the claim takes from each lane.';
