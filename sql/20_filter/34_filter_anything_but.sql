-- The operand of anything-but -> the tree of excluded values, and how many nodes it counts as.
create or replace function pgq._filter_anything_but(
    operand jsonb, scope text, path text[], at text, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text;
    v_operands jsonb := operand;
    v_leaves jsonb[] := '{}';
    v_part jsonb;
begin
    nodes := 0;
    if jsonb_typeof(operand) = 'object' then
        select o.key, o.value into v_name, v_operands from jsonb_each(operand) as o;
        if (select count(*) from jsonb_object_keys(operand)) <> 1
                or v_name not in ('prefix', 'suffix', 'equals-ignore-case', 'wildcard') then
            perform pgq._filter_error('anything-but takes values or one text operator', at,
                'Write {"anything-but": ["a", "b"]} or {"anything-but": {"prefix": "a"}}; '
                'it takes prefix, suffix, equals-ignore-case and wildcard.');
        end if;
    end if;
    if jsonb_typeof(v_operands) <> 'array' then
        v_operands := jsonb_build_array(v_operands);
    end if;
    perform pgq._filter_check_list(v_operands, false, at);
    if v_name is null then
        if (select count(distinct t.type) > 1 or bool_or(t.type not in ('string', 'number'))
                from jsonb_array_elements(v_operands) as o (operand), jsonb_typeof(o.operand)
                    as t (type)) then
            perform pgq._filter_error('anything-but takes strings or numbers', at,
                'Write {"anything-but": ["a", "b"]} or {"anything-but": [1, 2]}; '
                '{"$nin": [...]} outside a list takes null, true, false and both.');
        end if;
        tree := pgq._filter_membership(scope, path, v_operands, at);
        nodes := pgq._filter_value_nodes(v_operands) - 1;
        return;
    end if;
    if jsonb_array_length(v_operands) > 8 and not jsonb_path_exists(
            v_operands, 'strict $[*] ? (@.type() != "string" || @ == "")') then
        v_leaves := pgq._filter_parse_texts((
            select jsonb_agg(jsonb_build_object(v_name, o.operand))
            from jsonb_array_elements(v_operands) as o (operand)), scope, path);
    end if;
    if cardinality(v_leaves) < jsonb_array_length(v_operands) then
        v_leaves := '{}';
    else
        v_operands := '[]';
    end if;
    for v_part in select jsonb_array_elements(v_operands) loop
        if jsonb_typeof(v_part) <> 'string' then
            perform pgq._filter_error('the operand must be a string', at || '.' || v_name,
                format('Write {"anything-but": {"%s": "a"}} or {"%1$s": ["a", "b"]}.', v_name));
        elsif v_part = '""' and v_name in ('prefix', 'suffix') then
            perform pgq._filter_error('the ' || v_name || ' is empty', at,
                'Every text has it, so that no text could match.');
        end if;
        v_leaves := v_leaves || pgq._filter_parse_text(v_name, v_part, scope, path,
            at || '.' || v_name);
    end loop;
    select p.tree, p.nodes into tree, nodes from pgq._filter_patterns(v_leaves) as p;
end
$$;
comment on function pgq._filter_anything_but(jsonb, text, text[], text) is
    'Validates the operand of anything-but and gives the tree of what it excludes.';
