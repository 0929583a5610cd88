-- The name of a list of suffixes in a compiled filter.
create or replace function pgq._filter_list(suffixes jsonb) returns text
language sql immutable strict parallel safe
return '"' || hashtextextended(suffixes::text, 0)::text || '"';
comment on function pgq._filter_list(jsonb) is 'The name of a list of suffixes, quoted.';

-- The lists of suffixes of a tree that are searched backwards.
create or replace function pgq._filter_lists(tree jsonb) returns jsonb[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(select distinct l.suffixes from jsonb_path_query(tree,
        'strict $.** ? (@."op" == "suffixes")."value"', '{}', true) as l (suffixes));
end
$$;
comment on function pgq._filter_lists(jsonb) is
    'The lists of suffixes of a tree that are searched backwards.';
