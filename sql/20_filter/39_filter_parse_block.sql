-- A filter, a scope block or the fields below a field -> tree; scope is NULL if names contain it.
-- policy holds the tests of its lists on the payload: the caller joins it with other lists, or
-- makes it a tree by pgq._filter_policy.
create or replace function pgq._filter_parse_block(
    block jsonb, scope text, prefix text[], at text, depth int,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_policies jsonb[] := '{}';
    v_key text;
    v_value jsonb;
    v_at text;
    v_path text[];
    v_part record;
begin
    tree := 'true';
    policy := 'true';
    nodes := 0;
    if block is null or block = 'null' then
        return;
    elsif jsonb_typeof(block) <> 'object' then
        perform pgq._filter_error('a filter must be an object', at,
            'Write {"key": "value"}, or {} for everything.');
    elsif depth > 8 then
        perform pgq._filter_error('the filter is nested too deeply', at,
            'A filter is nested at most 8 levels deep.');
    elsif block ? '$path' then
        v_path := pgq._filter_parse_path(block -> '$path', scope, prefix, at || '.$path');
        if block - '$path' = '{}' or exists (
                select from jsonb_object_keys(block - '$path') as k (key)
                where k.key not like '$%' or k.key in ('$and', '$or', '$nor', '$not', '$const'))
        then
            perform pgq._filter_error('$path can be combined with operators only', at,
                'Write {"$path": ["payload", "a.b"], "$eq": 1}; join several with $and.');
        end if;
        select t.tree, t.policy, t.nodes into tree, policy, nodes
        from pgq._filter_parse_test(block - '$path', v_path[1], v_path[2:], at, depth) as t;
        return;
    end if;
    for v_key, v_value in select o.key, o.value from jsonb_each(block) as o loop
        v_at := at || '.' || left(v_key, 64);
        if v_key in ('$and', '$or', '$nor', '$not') then
            select l.tree, l.policy, l.nodes into v_part
            from pgq._filter_parse_logic(v_key, v_value, scope, prefix, v_at, depth + 1) as l;
        elsif v_key = '$const' then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform pgq._filter_error('$const takes true or false', v_at,
                    'Write {"$const": true} or {"$const": false}.');
            end if;
            select v_value as tree, 'true'::jsonb as policy, 1 as nodes into v_part;
        elsif v_key like '$%' then
            perform pgq._filter_error(
                'operator ' || left(v_key, 64) || ' does not belong to a field', v_at,
                'Write {"key": {"$gt": 5}}; to negate it, {"$not": {"key": {"$gt": 5}}}. '
                'To combine fields use $and, $or, $nor, $not or $const.');
        elsif scope is null and v_key in ('headers', 'payload', 'msg') then
            if jsonb_typeof(v_value) <> 'object' then
                perform pgq._filter_error(v_key || ' must hold fields', v_at, format(
                    'Write {"%s": {"key": "value"}}; a header of this name is "headers.%s".',
                    v_key, v_key));
            end if;
            select b.tree, b.policy, b.nodes into v_part
            from pgq._filter_parse_block(v_value, v_key, '{}', v_at, depth + 1) as b;
        else
            v_path := pgq._filter_parse_name(v_key, scope, prefix, v_at);
            select t.tree, t.policy, t.nodes into v_part
            from pgq._filter_parse_test(v_value, v_path[1], v_path[2:], v_at, depth) as t;
        end if;
        v_parts := v_parts || v_part.tree;
        v_policies := v_policies || v_part.policy;
        nodes := nodes + v_part.nodes;
    end loop;
    tree := pgq._filter_combine('and', v_parts);
    policy := pgq._filter_combine('and', v_policies);
end
$$;
comment on function pgq._filter_parse_block(jsonb, text, text[], text, int) is
    'Validates a block of fields and logic and gives its tree.';
