-- $and, $or, $nor or $not of filters -> tree. Only an $or of nothing but policies stays a policy:
-- $and, $nor and $not evaluate each filter separately, as if it were alone.
create or replace function pgq._filter_parse_logic(
    operator text, operand jsonb, scope text, prefix text[], at text, depth int,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_trees jsonb[] := '{}';
    v_closed jsonb[] := '{}';
    v_policies jsonb[] := '{}';
    v_child jsonb;
    v_key text;
    v_at text;
    v_scope constant text := case scope when 'item' then 'item' else 'payload' end;
    v_part record;
begin
    nodes := 1;
    policy := 'true';
    if operator <> '$not' then
        perform pgq._filter_check_list(operand, false, at);
    end if;
    for v_child in select jsonb_array_elements(
            case operator when '$not' then jsonb_build_array(operand) else operand end) loop
        v_at := case operator when '$not' then at
            else format('%s[%s]', at, cardinality(v_trees)) end;
        select o.key into v_key
        from jsonb_each(case jsonb_typeof(v_child) when 'object' then v_child else '{}' end) as o
        where o.key in ('exactly', 'prefix', 'suffix', 'equals-ignore-case', 'wildcard', 'cidr',
                'exists', 'numeric', 'anything-but')
            and jsonb_typeof(o.value) <> 'object';
        if found and operator = '$or' then
            perform pgq._filter_error(v_key || ' is an operator, not a field', v_at,
                format('Write {"key": [{"%s": ...}]}; a field of this name is {"%1$s": '
                    '{"$eq": ...}}.', v_key));
        end if;
        select b.tree, b.policy, b.nodes into v_part
        from pgq._filter_parse_block(v_child, scope, prefix, v_at, depth) as b;
        v_trees := v_trees || v_part.tree;
        v_policies := v_policies || v_part.policy;
        v_closed := v_closed || pgq._filter_combine('and',
            array[v_part.tree, pgq._filter_policy(v_part.policy, v_scope)]);
        nodes := nodes + v_part.nodes;
    end loop;
    if operator = '$or' and 'true' = all (v_trees) then
        tree := 'true';
        policy := pgq._filter_combine('or', v_policies);
        return;
    end if;
    tree := pgq._filter_combine(case operator when '$and' then 'and' else 'or' end, v_closed);
    if operator in ('$nor', '$not') then
        tree := pgq._filter_negate(tree);
    end if;
end
$$;
comment on function pgq._filter_parse_logic(text, jsonb, text, text[], text, int) is
    'Validates a logical operator of a filter and gives its tree.';
