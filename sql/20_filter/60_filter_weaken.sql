-- The weaker filter that looks at these header keys only: what fails it cannot match the tree.
-- final says that nothing was given up, so that whatever passes it does match.
create or replace function pgq._filter_weaken(
    inout tree jsonb, keys text[], negated boolean default false, out final boolean)
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
        from pgq._filter_weaken(tree -> 'of', keys, not negated) as w;
    elsif v_operator in ('and', 'or') then
        for v_child in select jsonb_array_elements(tree -> 'of') loop
            select w.tree, w.final into v_part
            from pgq._filter_weaken(v_child, keys, negated) as w;
            v_parts := v_parts || v_part.tree;
            final := final and v_part.final;
        end loop;
        tree := pgq._filter_combine(
            case when negated = (v_operator = 'and') then 'or' else 'and' end, v_parts);
    elsif tree ->> 'in' = 'headers' and tree -> 'path' ->> 0 = any (keys) then
        tree := case when negated then pgq._filter_negate(tree) else tree end;
    else
        tree := 'true';
        final := false;
    end if;
end
$$;
comment on function pgq._filter_weaken(jsonb, text[], boolean) is
    'Weakens a syntax tree to a test of the given header keys; final if nothing was given up.';
revoke all on function pgq._filter_weaken(jsonb, text[], boolean) from public;
