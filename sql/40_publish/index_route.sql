-- Takes the bindings that can be found by their anchors out of a route that has many, and lists the
-- fields of a message to look up. A field that many filters test is looked up by its value; headers
-- that few filters test, by their name.
create or replace function pgq._index_route(route pgq.route) returns pgq.route
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_found int[];
begin
    with used as materialized (
        select a.*, b.anchors, b.pattern
        from unnest(route.binding_ids) u (binding_id)
        join pgq.binding b on b.binding_id = u.binding_id and b.anchors > 0
        join pgq.anchor a on a.binding_id = b.binding_id
        -- bindings and anchors must be of the same version as the route
        where route.version = (select sum(s.version) from pgq.routing s)
    ), listed as materialized (
        select u.field, min(u.scope) as scope, min(u.path) as path,
               bool_or(u.kind = 'equal') as equal,
               array_agg(distinct u.size) filter (where u.kind = 'prefix') as sizes,
               bool_or(u.kind = 'range') as ranged, bool_or(u.kind = 'text range') as texts,
               bool_or(u.kind = 'there') as there, bool_or(u.kind = 'missing') as missing,
               bool_or(u.kind = 'several') as several
        from used u
        group by u.field having count(*) >= pgq._limit('field_filters')
        order by count(*) desc, u.field limit pgq._limit('fields')
    ), named as materialized (
        select u.pattern from used u
        where u.scope = 'headers' and u.field not in (select l.field from listed l)
        group by u.pattern order by count(*) desc, u.pattern limit pgq._limit('field_patterns')
    ), found as (
        select u.binding_id from used u
        group by u.binding_id, u.anchors
        having count(*) = u.anchors and bool_and(
            u.field in (select l.field from listed l)
            or u.scope = 'headers' and u.kind <> 'missing'
            and u.pattern in (select n.pattern from named n))
    )
    select array(select f.binding_id from found f),
           array(select (l.field, l.scope, l.path, case l.scope when 'payload' then array(
                     -- the last key without the steps into arrays: arrays are values, too
                     select ('$' || left(s.spelling, -9))::jsonpath
                     from unnest(pgq._filter_spellings(to_jsonb(l.path), false)) as s (spelling))
                     end,
                     l.equal, l.sizes, l.ranged, l.texts, l.there, l.missing,
                     l.several)::pgq._field
                 from listed l),
           array(select n.pattern from named n)
    into v_found, route.fields, route.patterns;
    if v_found = '{}' then
        route.fields := null;
        route.patterns := null;
    else
        route.receivers := '{}';
        route.windows := '{}';
        route.binding_ids := array(
            select u from unnest(route.binding_ids) u except select f from unnest(v_found) f);
    end if;
    return route;
end
$$;
comment on function pgq._index_route(pgq.route) is
    'Takes bindings that can be found by their anchors out of a route.';
