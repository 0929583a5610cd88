-- What is asked of one field: a value, a list of alternatives, operators, or fields below it.
create or replace function pgq._filter_parse_test(
    test jsonb, scope text, path text[], at text, depth int, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_logic constant text[] := '{$and,$or,$nor,$not,$const,$path}';
    v_parts jsonb[] := '{}';
    v_scalars jsonb;
    v_key text;
    v_value jsonb;
    v_index int := 0;
    v_part record;
begin
    nodes := 1;
    if depth > 8 then
        perform pgq._filter_error('the filter is nested too deeply', at,
            'A filter is nested at most 8 levels deep.');
    end if;
    if jsonb_typeof(test) = 'array' then
        perform pgq._filter_check_list(test, false, at);
        v_scalars := jsonb_path_query_array(test,
            'strict $[*] ? (@.type() != "array" && @.type() != "object")');
        if v_scalars <> '[]' then
            v_parts := v_parts || pgq._filter_membership(scope, path, v_scalars, at);
        end if;
        for v_value in select jsonb_array_elements(test) loop
            if jsonb_typeof(v_value) in ('array', 'object') then
                v_parts := v_parts || pgq._filter_parse_alternative(v_value, scope, path,
                    format('%s[%s]', at, v_index));
            end if;
            v_index := v_index + 1;
        end loop;
        nodes := cardinality(v_parts);
        tree := pgq._filter_combine('or', v_parts);
    elsif jsonb_typeof(test) <> 'object' then
        tree := pgq._filter_membership(scope, path, jsonb_build_array(test), at);
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
    else
        select b.tree, b.nodes into tree, nodes
        from pgq._filter_parse_block(test, scope, path, at,
            depth + case when path = '{}' then 0 else 1 end) as b;
    end if;
end
$$;
comment on function pgq._filter_parse_test(jsonb, text, text[], text, int) is
    'Validates the test of one field and gives its tree.';
revoke all on function pgq._filter_parse_test(jsonb, text, text[], text, int) from public;
