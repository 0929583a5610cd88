-- The values that a tree compares with, in order; a list counts value by value.
create or replace function pgq._filter_operands(tree jsonb)
returns jsonb
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then pgq._filter_operands(tree -> 'of')
        when tree ? 'of' then (
            select coalesce(jsonb_agg(v.value order by t.position, v.position), '[]')
            from jsonb_array_elements(tree -> 'of') with ordinality as t (tree, position),
                jsonb_array_elements(pgq._filter_operands(t.tree))
                    with ordinality as v (value, position))
        when tree ->> 'op' in ('in', 'all', 'mod', 'suffixes') then tree -> 'value'
        when tree ->> 'op' = 'range' then jsonb_path_query_array(tree, 'strict $."value".*')
        when tree ->> 'op' = 'patterns' then jsonb_path_query_array(tree, 'strict $."value"[*][1]')
        when tree ->> 'op' in ('elem', 'each', 'any') then pgq._filter_operands(tree -> 'value')
        when tree ? 'value' then jsonb_build_array(tree -> 'value')
        else '[]' end;
end
$$;
comment on function pgq._filter_operands(jsonb) is
    'The operands of a syntax tree, as one list.';
