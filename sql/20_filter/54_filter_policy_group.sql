-- Conditions on fields below one key: if one of them needs a field, all of them test the same
-- element of an array. Conditions that only test for missing fields apply to all elements.
create or replace function pgq._filter_policy_group(
    key text, conditions jsonb[], scope text, skip int)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_tree jsonb := conditions[1];
begin
    if cardinality(conditions) = 1 and v_tree ->> 'op' in ('any', 'not') then
        return pgq._filter_policy_leaf(v_tree, skip);
    elsif exists (select from unnest(conditions) as c (tree)
            where c.tree ->> 'op' = 'any' or pgq._filter_policy_needs(c.tree)) then
        v_tree := pgq._filter_policy(pgq._filter_combine('and', conditions), 'item', skip + 1);
        return case v_tree ->> 'op'
            when 'each' then v_tree || jsonb_build_object('in', scope,
                'path', jsonb_build_array(key) || (v_tree -> 'path'))
            else jsonb_build_object('op', 'each', 'in', scope, 'path', jsonb_build_array(key),
                    'value', v_tree)
                || case when jsonb_path_exists(v_tree, '$.**."plain"') then '{"plain": true}'
                    else '{}'::jsonb end end;
    end if;
    foreach v_tree in array conditions loop
        v_parts := v_parts || case v_tree ->> 'op'
            when 'or' then pgq._filter_combine('or', array(
                select pgq._filter_policy_group(key, array[t.tree], scope, skip)
                from jsonb_array_elements(v_tree -> 'of') as t (tree)))
            when 'and' then pgq._filter_policy_group(key,
                array(select jsonb_array_elements(v_tree -> 'of')), scope, skip)
            else pgq._filter_policy_leaf(v_tree, skip) end;
    end loop;
    return pgq._filter_combine('and', v_parts);
end
$$;
comment on function pgq._filter_policy_group(text, jsonb[], text, int) is
    'The tree of the conditions of a policy on fields below one key.';
