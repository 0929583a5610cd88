-- The condition of a leaf on one item: true or false, never unknown. The type is checked first, or
-- lax mode would unwrap arrays.
create or replace function pgq._filter_item(operator text, value jsonb, item text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type text := 'string';
    v_condition text;
begin
    case operator
        when 'exists' then
            return format('exists(%s)', item);
        when 'some' then
            return item || '.type() != "null"';
        when 'type' then
            return format('%s.type() == %s', item, value);
        when 'eq' then
            return pgq._filter_equal(item, value);
        when 'in' then
            return format('(%1$s.type() != "array" && exists(%1$s ? (%2$s)))', item,
                pgq._filter_among(value));
        when 'all' then
            return pgq._filter_join('&&', format('%s.type() == "array"', item)
                || array(select format('exists(%s ? (%s))', item, pgq._filter_equal('@', e.value))
                    from jsonb_array_elements(value) as e (value)));
        when 'size' then
            return format('(%1$s.type() == "array" && %1$s.size() == %2$s)', item, value);
        when 'elem' then
            return format('(%1$s.type() == "array" && exists(%1$s ? (%2$s)))', item,
                pgq._filter_condition(value, 'item'));
        when 'contains' then
            -- the one exception of @>: an array contains a scalar that is one of its elements
            v_condition := pgq._filter_contain(item, value);
            return case when jsonb_typeof(value) in ('array', 'object') then v_condition
                else format('(%1$s || (%2$s.type() == "array" && exists(%2$s ? (%3$s))))',
                    v_condition, item, pgq._filter_contain('@', value)) end;
        when 'range' then
            select string_agg(item || case b.key when 'gt' then ' > ' when 'gte' then ' >= '
                    when 'lt' then ' < ' else ' <= ' end || pgq._filter_literal(b.value), ' && '),
                min(case jsonb_typeof(b.value) when 'string' then 'string' else 'number' end)
            into v_condition, v_type
            from jsonb_each(value) as b;
        when 'mod' then
            v_type := 'number';
            v_condition := format('%s %% %s == %s', item, value -> 0, value -> 1);
        when 'suffixes' then
            -- pgq._test_suffixes has found the texts that pass
            v_condition := format('%s == $"found".%s[*]', item, pgq._filter_list(value));
        when 'patterns' then
            -- the item is @ itself: several patterns come from a list, which tests one item
            v_condition := pgq._filter_any_text(value);
        else
            v_condition := item || pgq._filter_text(operator, value #>> '{}');
    end case;
    return format('(%s.type() == "%s" && %s)', item, v_type, v_condition);
end
$$;
comment on function pgq._filter_item(text, jsonb, text) is
    'The jsonpath condition of one test on one item.';
