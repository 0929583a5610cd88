-- A bound of an order test: a literal, or seconds from now.
create or replace function pgq._filter_literal(value jsonb)
returns text
language sql immutable strict parallel safe
return case pg_catalog.jsonb_typeof(value)
    when 'object' then '$"now" + (' || (value operator(pg_catalog.->>) 'now') || ')'
    else value::text end;
comment on function pgq._filter_literal(jsonb) is 'The jsonpath literal of a bound.';
