-- One test of one field, as a leaf of the syntax tree.
create or replace function pgq._filter_node(
    operator text, scope text, path text[], value jsonb default null)
returns jsonb
language sql stable parallel safe
return case when value is null
    then pg_catalog.jsonb_build_object('op', operator, 'in', scope, 'path', path)
    else pg_catalog.jsonb_build_object('op', operator, 'in', scope, 'path', path, 'value', value)
    end;
comment on function pgq._filter_node(text, text, text[], jsonb) is
    'A leaf of the syntax tree of a filter: {"op", "in", "path", "value"}.';
