-- and / or of trees; constants vanish, nested nodes of the same kind are spliced in.
create or replace function pgq._filter_combine(operator text, trees jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_neutral jsonb := to_jsonb(operator = 'and');
    v_absorbing jsonb := to_jsonb(operator = 'or');
    v_of jsonb := '[]';
    v_tree jsonb;
begin
    if cardinality(trees) = 1 then
        return trees[1];
    elsif v_absorbing = any (trees) then
        return v_absorbing;
    elsif cardinality(trees) <= 8 then
        -- for a few trees a statement would cost more than all the rest
        foreach v_tree in array trees loop
            if v_tree ->> 'op' = operator then
                v_of := v_of || (v_tree -> 'of');
            elsif v_tree <> v_neutral then
                v_of := v_of || jsonb_build_array(v_tree);
            end if;
        end loop;
    else
        select coalesce(jsonb_agg(e.tree order by t.position, e.position), '[]')
        into v_of
        from unnest(trees) with ordinality as t (tree, position),
            jsonb_array_elements(case t.tree ->> 'op' when operator then t.tree -> 'of'
                else jsonb_build_array(t.tree) end) with ordinality as e (tree, position)
        where t.tree <> v_neutral;
    end if;
    return case jsonb_array_length(v_of)
        when 0 then v_neutral
        when 1 then v_of -> 0
        else jsonb_build_object('op', operator, 'of', v_of) end;
end
$$;
comment on function pgq._filter_combine(text, jsonb[]) is
    'Joins trees by and / or, simplified.';
