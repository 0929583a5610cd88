-- The condition of a tree. Unknown counts as false: and / or keep that, only a complement must
-- settle it first, which is what exists(true ? (...)) does. That would hide the item that @ means,
-- so conditions on an item are written to be never unknown.
create or replace function pgq._filter_condition(tree jsonb, root text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        -- a constant that jsonpath accepts where a condition must stand
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
