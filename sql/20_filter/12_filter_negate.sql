-- The complement of a tree.
create or replace function pgq._filter_negate(tree jsonb)
returns jsonb
language sql stable parallel safe
return case
    when tree operator(pg_catalog.=) 'true'::jsonb then 'false'::jsonb
    when tree operator(pg_catalog.=) 'false'::jsonb then 'true'::jsonb
    when (tree operator(pg_catalog.->>) 'op') operator(pg_catalog.=) 'not'
        then tree operator(pg_catalog.->) 'of'
    else pg_catalog.jsonb_build_object('op', 'not', 'of', tree) end;
comment on function pgq._filter_negate(jsonb) is 'The complement of a tree, simplified.';
