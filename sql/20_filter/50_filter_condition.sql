-- The condition of a tree. Unknown counts as false. and / or preserve that; before a complement,
-- exists(true ? (...)) turns unknown into false. Inside it @ is no longer the item, so conditions
-- on an item are written such that they are never unknown.
create or replace function pgq._filter_condition(tree jsonb, root text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        -- a constant that jsonpath accepts where it needs a condition
        when tree = 'true' then '(1 == 1)'
        when tree = 'false' then '(1 == 0)'
        when tree ->> 'op' = 'not' then format(
            case root when 'item' then '!(%s)' else '!(exists(true ? (%s)))' end,
            pgq._filter_condition(tree -> 'of', root))
        when tree ? 'of' then pgq._filter_join(
            case tree ->> 'op' when 'and' then '&&' else '||' end,
            array(select pgq._filter_condition(t.tree, root)
                from jsonb_array_elements(tree -> 'of') with ordinality as t (tree, position)
                order by t.position))
        else pgq._filter_leaf(tree, root) end;
end
$$;
comment on function pgq._filter_condition(jsonb, text) is
    'The jsonpath condition of a syntax tree.';
