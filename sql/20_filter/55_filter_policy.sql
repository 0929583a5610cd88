-- The lists of one filter as SNS and EventBridge define them: conditions on fields below an array
-- hold for the same element of it. Takes a tree of op any over whole paths. The result is relative
-- to the element that the first skip keys lead to.
create or replace function pgq._filter_policy(policy jsonb, scope text, skip int default 0)
returns jsonb
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_conditions jsonb[];
    v_key text;
begin
    if jsonb_typeof(policy) = 'boolean' then
        return policy;
    end if;
    for v_key, v_conditions in
        select h.head, array_agg(c.tree order by c.position)
        from jsonb_array_elements(case policy ->> 'op' when 'and' then policy -> 'of'
                else jsonb_build_array(policy) end) with ordinality as c (tree, position),
            lateral (select case when c.tree ? 'of' then pgq._filter_policy_head(c.tree, skip)
                when jsonb_array_length(c.tree -> 'path') > skip + 1
                    then c.tree -> 'path' ->> skip end) as h (head)
        group by h.head order by min(c.position)
    loop
        v_parts := v_parts || case
            when v_key is not null then
                array[pgq._filter_policy_group(v_key, v_conditions, scope, skip)]
            else array(
                select case c.tree ->> 'op'
                    when 'or' then pgq._filter_combine('or', array(
                        select pgq._filter_policy(t.tree, scope, skip)
                        from jsonb_array_elements(c.tree -> 'of') as t (tree)))
                    else pgq._filter_policy_leaf(c.tree, skip) end
                from unnest(v_conditions) as c (tree)) end;
    end loop;
    return pgq._filter_combine('and', v_parts);
end
$$;
comment on function pgq._filter_policy(jsonb, text, int) is
    'Turns the lists of a filter into a tree in which one element of an array satisfies all of '
    'them.';
