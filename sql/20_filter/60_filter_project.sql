-- Projects a filter to these fields: a message that fails the result cannot match the tree. final:
-- no condition was dropped, so that a message that passes the result does match.
create or replace function pgq._filter_project(
    inout tree jsonb, keys text[], negated boolean default false, prefix text default null,
    out final boolean)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operator constant text := tree ->> 'op';
    v_parts jsonb[] := '{}';
    v_child jsonb;
    v_part record;
begin
    final := true;
    if jsonb_typeof(tree) = 'boolean' then
        tree := case when negated then pgq._filter_negate(tree) else tree end;
    elsif v_operator = 'not' then
        select w.tree, w.final into tree, final
        from pgq._filter_project(tree -> 'of', keys, not negated, prefix) as w;
    elsif v_operator in ('and', 'or') then
        for v_child in select jsonb_array_elements(tree -> 'of') loop
            select w.tree, w.final into v_part
            from pgq._filter_project(v_child, keys, negated, prefix) as w;
            v_parts := v_parts || v_part.tree;
            final := final and v_part.final;
        end loop;
        tree := pgq._filter_combine(
            case when negated = (v_operator = 'and') then 'or' else 'and' end, v_parts);
    elsif v_operator = 'each' then
        -- Conditions on one object. Their complement is only known if none of them was dropped.
        select w.tree, w.final into v_part
        from pgq._filter_project(
            tree -> 'value', keys, false, pgq._filter_field(tree, prefix)) as w;
        final := v_part.final;
        tree := case
            when jsonb_typeof(v_part.tree) = 'boolean' or negated and not final then 'true'::jsonb
            when negated then pgq._filter_negate(tree)
            else tree || jsonb_build_object('value', v_part.tree) end;
    elsif pgq._filter_field(tree, prefix) = any (keys) and pgq._filter_lists(tree) = '{}' then
        tree := case when negated then pgq._filter_negate(tree) else tree end;
    else
        tree := 'true';
        final := false;
    end if;
end
$$;
comment on function pgq._filter_project(jsonb, text[], boolean, text) is
    'Projects a syntax tree to the given fields; final if no condition was dropped.';
