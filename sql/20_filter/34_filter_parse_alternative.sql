-- One operator object of an any-of list, as SNS and EventBridge spell it -> tree.
create or replace function pgq._filter_parse_alternative(
    alternative jsonb, scope text, path text[], at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Inside a list stand values and prefix, suffix, equals-ignore-case, '
        'wildcard, exists, numeric and anything-but, one per object.';
    v_name text;
    v_operand jsonb;
    v_at text;
    v_parts jsonb[] := '{}';
    v_part jsonb;
    v_bounds jsonb := '{}';
    v_bound text;
begin
    if jsonb_typeof(alternative) <> 'object' then
        perform pgq._filter_error('a list cannot hold a list', at,
            'Compare with a whole array by {"$eq": [...]}.');
    elsif (select count(*) from jsonb_object_keys(alternative)) <> 1 then
        perform pgq._filter_error('an object in a list must hold one operator', at, v_hint);
    end if;
    select o.key, o.value into v_name, v_operand from jsonb_each(alternative) as o;
    v_at := at || '.' || left(v_name, 64);
    if v_name in ('prefix', 'suffix') and jsonb_typeof(v_operand) = 'object' then
        if v_operand - 'equals-ignore-case' <> '{}'
                or jsonb_typeof(v_operand -> 'equals-ignore-case') is distinct from 'string' then
            perform pgq._filter_error('the operand must be a string', v_at, v_hint);
        end if;
        v_operand := to_jsonb(
            case v_name when 'suffix' then '%' else '' end
            || regexp_replace(v_operand ->> 'equals-ignore-case', E'([\\\\%_])', E'\\\\\\1', 'g')
            || case v_name when 'prefix' then '%' else '' end);
        v_name := 'ilike';
    elsif v_name = 'equals-ignore-case' then
        v_name := 'ieq';
    end if;
    case v_name
        when 'prefix', 'suffix', 'ieq', 'ilike', 'wildcard', 'exists' then
            return (pgq._filter_parse_operator('$' || v_name, v_operand, null, scope, path, v_at,
                1)).tree;
        when 'numeric' then
            if jsonb_typeof(v_operand) <> 'array'
                    or jsonb_array_length(v_operand) not in (2, 4)
                    or jsonb_path_exists(v_operand, 'strict $[1, 3] ? (@.type() != "number")',
                        silent => true)
                    or jsonb_typeof(v_operand -> 1) <> 'number' then
                perform pgq._filter_error('numeric takes comparisons with numbers', v_at,
                    'Write ["=", 5], [">", 0] or [">", 0, "<=", 150].');
            end if;
            if v_operand -> 0 = '"="' and jsonb_array_length(v_operand) = 2 then
                return (pgq._filter_parse_operator('$eq', v_operand -> 1, null, scope, path, v_at,
                    1)).tree;
            end if;
            for i in 0 .. jsonb_array_length(v_operand) - 1 by 2 loop
                v_bound := case v_operand ->> i when '>' then 'gt' when '>=' then 'gte'
                    when '<' then 'lt' when '<=' then 'lte' end;
                v_bounds := v_bounds
                    || jsonb_build_object(coalesce(v_bound, '?'), v_operand -> (i + 1));
            end loop;
            if v_bounds ? '?' or (v_bounds ?| '{gt,gte}')::int + (v_bounds ?| '{lt,lte}')::int
                    <> jsonb_array_length(v_operand) / 2 then
                perform pgq._filter_error('numeric takes one comparison for each end', v_at,
                    'Write ["=", 5], [">", 0] or [">", 0, "<=", 150].');
            end if;
            return pgq._filter_range(scope, path, v_bounds, v_at);
        when 'anything-but' then
            if jsonb_typeof(v_operand) <> 'object' then
                return (pgq._filter_parse_operator('$nin', case jsonb_typeof(v_operand)
                    when 'array' then v_operand else jsonb_build_array(v_operand) end,
                    null, scope, path, v_at, 1)).tree;
            elsif (select count(*) from jsonb_object_keys(v_operand)) <> 1
                    or not v_operand ?| '{prefix,suffix,equals-ignore-case,wildcard}' then
                perform pgq._filter_error('anything-but takes values or one text operator', v_at,
                    'Write {"anything-but": ["a", "b"]} or {"anything-but": {"prefix": "a"}}; '
                    'prefix, suffix, equals-ignore-case and wildcard may stand inside.');
            end if;
            select o.key, o.value into v_name, v_operand from jsonb_each(v_operand) as o;
            if jsonb_typeof(v_operand) <> 'array' then
                v_operand := jsonb_build_array(v_operand);
            end if;
            perform pgq._filter_check_list(v_operand, true, v_at);
            for v_part in select jsonb_array_elements(v_operand) loop
                v_parts := v_parts || pgq._filter_parse_alternative(
                    jsonb_build_object(v_name, v_part), scope, path, v_at);
            end loop;
            return pgq._filter_unless(scope, path, pgq._filter_combine('or', v_parts));
        else
            perform pgq._filter_error('unknown operator ' || left(v_name, 64) || ' in a list', v_at,
                v_hint || case v_name when 'cidr' then
                    ' Address ranges are not supported: use prefix, or $regex.' else '' end);
    end case;
    return null;  -- not reached
end
$$;
comment on function pgq._filter_parse_alternative(jsonb, text, text[], text) is
    'Validates an SNS or EventBridge operator and gives its tree.';
revoke all on function pgq._filter_parse_alternative(jsonb, text, text[], text) from public;
