-- The item equals this JSON value. Each type is checked before its parts, because lax mode would
-- otherwise unwrap arrays; .type() and .size() never do.
create or replace function pgq._filter_equal(item text, value jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_conditions text[] := array[format('%s.type() == "%s"', item, jsonb_typeof(value))];
    v_others text;
begin
    case jsonb_typeof(value)
        when 'null' then
            null;
        when 'array' then
            v_conditions := v_conditions
                || format('%s.size() == %s', item, jsonb_array_length(value))
                || array(select pgq._filter_equal(format('%s[%s]', item, e.position - 1), e.value)
                    from jsonb_array_elements(value) with ordinality as e (value, position));
        when 'object' then
            select format('!(exists(%s.keyvalue()%s))', item,
                ' ? (' || pgq._filter_join('&&',
                    array_agg('@."key" != ' || to_json(m.key)::text)) || ')')
            into v_others
            from jsonb_each(value) as m;
            v_conditions := v_conditions
                || array(select pgq._filter_equal(item || '.' || to_json(m.key)::text, m.value)
                    from jsonb_each(value) as m)
                || v_others;
        else
            v_conditions := v_conditions || format('%s == %s', item, value);
    end case;
    return pgq._filter_join('&&', v_conditions);
end
$$;
comment on function pgq._filter_equal(text, jsonb) is
    'The jsonpath condition of an item being equal to a JSON value.';
