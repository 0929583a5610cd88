-- The first n messages of a queue whose headers match a filter, in order: see _scan_messages. Most
-- filters test headers only. This statement reads no other column of a message, and so takes a
-- tenth less.
create or replace function pgq._scan_headers(
    claim pgq._claim, path jsonpath, equal jsonb, filter_id bigint, lanes pgq._lanes
) returns pgq._scan
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scan pgq._scan;
begin
    select array_agg(h.place), array_agg(h.ids), array_agg(h.count), max(h.rank),
           coalesce(sum(h.count), 0)
    into v_scan
    from (
        select x.place, x.rank, range_agg(int8range(x.id, x.id + 1)) as ids,
               count(*)::int as count
        from (
            select r.ctid as place, r.rank, m.id from pgq.ready r
            cross join lateral pgq._spans(r.ids, r.size) u
            join pgq.message m on m.id >= u.first and m.id < u.behind
            where r.queue_id = claim.queue_id and r.rank >= claim.low
              and r.unmatched_by is distinct from coalesce(_scan_headers.filter_id, 0)
              and (r.expires_at is null or r.expires_at > claim.claimed_at)
              and pgq._in_lanes(lanes, r.lane_id, r.hash)
              and (u.among is null or u.among @> m.id)
              and case when equal is not null then m.headers @> equal
                  else jsonb_path_match(m.headers, path, '{}', true) end
            order by r.rank limit claim.n
        ) x
        group by 1, 2
    ) h;
    return v_scan;
end
$$;
comment on function pgq._scan_headers(pgq._claim, jsonpath, jsonb, bigint, pgq._lanes) is
    'The first messages of a queue whose headers match a filter.';
