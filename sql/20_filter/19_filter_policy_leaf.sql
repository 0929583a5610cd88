-- A leaf of a policy, or the complement of one, without the first keys of its path.
create or replace function pgq._filter_policy_leaf(tree jsonb, skip int)
returns jsonb
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when skip = 0 then tree
        when tree ->> 'op' = 'not' then pgq._filter_negate(
            pgq._filter_policy_leaf(tree -> 'of', skip))
        else tree || jsonb_build_object('in', 'item', 'path',
            jsonb_path_query_array(tree -> 'path', 'strict $[$skip to last]',
                jsonb_build_object('skip', skip))) end;
end
$$;
comment on function pgq._filter_policy_leaf(jsonb, int) is
    'A leaf of a policy without the first keys of its path.';
