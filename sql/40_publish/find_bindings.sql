-- Which messages match which of the bindings that are found by their anchors: the values of the
-- messages are looked up, and only filters that have an anchor there are tested.
create or replace function pgq._find_bindings(
    route pgq.route, ids bigint[], now timestamptz
) returns pgq._hits
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hits pgq._hits;
begin
    select array_agg(b.binding_id), array_agg(m.id)
    into v_hits
    from unnest(_find_bindings.ids) u (id)
    join pgq.message m on m.id = u.id
    cross join lateral pgq._places(route.fields, route.patterns, m) p
    -- an array of candidates: = any finds each of them once
    join pgq.binding b on b.binding_id = any (array(
        select a.binding_id from pgq.anchor a
        where a.place = any (p.places) or a.field = any (p.names) or a.area @> any (p.areas)))
    where route.version = (select sum(s.version) from pgq.routing s)
      and not b.pending and b.binding_id <> all (route.binding_ids)
      and (b.regex is null and b.pattern = route.topic or route.topic ~ b.regex)
      and pgq._matches(b.path, b.scope, m, 1, now)
      -- not a join: that would read all queues
      and (select q.mode from pgq.queue q where q.queue_id = b.queue_id) = 'queue';
    return v_hits;
end
$$;
comment on function pgq._find_bindings(pgq.route, bigint[], timestamptz) is
    'Matches messages with the bindings that are found by anchors.';
