-- The test of one field -> tree: a value, a list of alternatives, operators, or fields below it.
-- policy is the part that is combined with other lists: pgq._filter_policy makes it a tree.
create or replace function pgq._filter_parse_test(
    test jsonb, scope text, path text[], at text, depth int,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_logic constant text[] := '{$and,$or,$nor,$not,$const,$path}';
    v_parts jsonb[] := '{}';
    v_key text;
    v_value jsonb;
    v_part record;
begin
    nodes := 1;
    policy := 'true';
    if depth > 8 then
        perform pgq._filter_error('the filter is nested too deeply', at,
            'A filter is nested at most 8 levels deep.');
    end if;
    if jsonb_typeof(test) <> 'object' then
        -- a value alone is a list of one
        select l.tree, l.policy, l.nodes into tree, policy, nodes
        from pgq._filter_parse_list(
            case jsonb_typeof(test) when 'array' then test else jsonb_build_array(test) end,
            scope, path, at) as l;
    elsif test = '{}' then
        perform pgq._filter_error('the test is empty', at,
            'Write {"$exists": true} for a field that is there, {"$eq": {}} for an empty object.');
    elsif exists (select from jsonb_object_keys(test) as k (key)
            where k.key like '$%' and k.key <> all (v_logic)) and not test ? '$path' then
        nodes := 0;
        for v_key, v_value in select o.key, o.value from jsonb_each(test) as o loop
            if v_key not like '$%' then
                perform pgq._filter_error('operators and fields cannot be mixed', at,
                    'Give the field ' || left(to_json(v_key)::text, 64)
                    || ' a test of its own, beside this one.');
            elsif v_key <> '$options' or not test ? '$regex' then
                select p.tree, p.nodes into v_part
                from pgq._filter_parse_operator(v_key, v_value, test -> '$options', scope, path,
                    at || '.' || left(v_key, 64), depth) as p;
                v_parts := v_parts || v_part.tree;
                nodes := nodes + v_part.nodes;
            end if;
        end loop;
        tree := pgq._filter_combine('and', v_parts);
    elsif scope = 'msg' then
        perform pgq._filter_error('the fields of msg have no parts', at,
            'Test the field itself: {"msg.priority": {"$gt": 5}}');
    elsif path <> '{}' and exists (select from jsonb_each(test) as o
            where o.key in ('prefix', 'suffix', 'equals-ignore-case', 'wildcard', 'cidr', 'exists',
                    'numeric', 'anything-but')
                and jsonb_typeof(o.value) not in ('array', 'object')) then
        perform pgq._filter_error('an operator of SNS must be in a list', at,
            'Write {"key": [{"prefix": "a"}]}; a field of this name is "key.prefix".');
    else
        select b.tree, b.policy, b.nodes into tree, policy, nodes
        from pgq._filter_parse_block(test, scope, path, at,
            depth + case when path = '{}' then 0 else 1 end) as b;
    end if;
end
$$;
comment on function pgq._filter_parse_test(jsonb, text, text[], text, int) is
    'Validates the test of one field and gives its tree.';
