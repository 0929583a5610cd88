-- A filter, a scope block or the fields below a field -> tree; scope is NULL where names are whole.
create or replace function pgq._filter_parse_block(
    block jsonb, scope text, prefix text[], at text, depth int, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_children jsonb[];
    v_key text;
    v_value jsonb;
    v_child jsonb;
    v_at text;
    v_path text[];
    v_part record;
begin
    tree := 'true';
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
            perform pgq._filter_error('$path stands with operators only', at,
                'Write {"$path": ["payload", "a.b"], "$eq": 1}; join several with $and.');
        end if;
        select t.tree, t.nodes into tree, nodes
        from pgq._filter_parse_test(block - '$path', v_path[1], v_path[2:], at, depth) as t;
        return;
    end if;
    for v_key, v_value in select o.key, o.value from jsonb_each(block) as o loop
        v_at := at || '.' || left(v_key, 64);
        if v_key in ('$and', '$or', '$nor') then
            perform pgq._filter_check_list(v_value, false, v_at);
            nodes := nodes + 1;
            v_children := '{}';
            for v_child in select jsonb_array_elements(v_value) loop
                select b.tree, b.nodes into v_part
                from pgq._filter_parse_block(v_child, scope, prefix,
                    format('%s[%s]', v_at, cardinality(v_children)), depth + 1) as b;
                v_children := v_children || v_part.tree;
                nodes := nodes + v_part.nodes;
            end loop;
            v_child := pgq._filter_combine(
                case v_key when '$and' then 'and' else 'or' end, v_children);
            v_parts := v_parts
                || case v_key when '$nor' then pgq._filter_negate(v_child) else v_child end;
        elsif v_key = '$not' then
            select b.tree, b.nodes into v_part
            from pgq._filter_parse_block(v_value, scope, prefix, v_at, depth + 1) as b;
            v_parts := v_parts || pgq._filter_negate(v_part.tree);
            nodes := nodes + v_part.nodes + 1;
        elsif v_key = '$const' then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform pgq._filter_error('$const takes true or false', v_at,
                    'Write {"$const": true} or {"$const": false}.');
            end if;
            v_parts := v_parts || v_value;
            nodes := nodes + 1;
        elsif v_key like '$%' then
            perform pgq._filter_error(
                'operator ' || left(v_key, 64) || ' does not belong to a field', v_at,
                'Write {"key": {"$gt": 5}}; to negate it, {"$not": {"key": {"$gt": 5}}}. '
                'Between fields stand $and, $or, $nor, $not and $const.');
        elsif scope is null and v_key in ('headers', 'payload', 'msg') then
            if jsonb_typeof(v_value) <> 'object' then
                perform pgq._filter_error(v_key || ' must hold fields', v_at, format(
                    'Write {"%s": {"key": "value"}}; a header of this name is "headers.%s".',
                    v_key, v_key));
            end if;
            select b.tree, b.nodes into v_part
            from pgq._filter_parse_block(v_value, v_key, '{}', v_at, depth + 1) as b;
            v_parts := v_parts || v_part.tree;
            nodes := nodes + v_part.nodes;
        else
            v_path := pgq._filter_parse_name(v_key, scope, prefix, v_at);
            select t.tree, t.nodes into v_part
            from pgq._filter_parse_test(v_value, v_path[1], v_path[2:], v_at, depth) as t;
            v_parts := v_parts || v_part.tree;
            nodes := nodes + v_part.nodes;
        end if;
    end loop;
    tree := pgq._filter_combine('and', v_parts);
end
$$;
comment on function pgq._filter_parse_block(jsonb, text, text[], text, int) is
    'Validates a block of fields and logic and gives its tree.';
revoke all on function pgq._filter_parse_block(jsonb, text, text[], text, int) from public;
