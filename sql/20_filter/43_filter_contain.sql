-- The item contains this JSON value as @> means it, below the top.
create or replace function pgq._filter_contain(item text, value jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_condition text := format('%s.type() == "%s"', item, jsonb_typeof(value));
begin
    return case jsonb_typeof(value)
        when 'object' then pgq._filter_join('&&', v_condition
            || array(select pgq._filter_contain(item || '.' || to_json(m.key)::text, m.value)
                from jsonb_each(value) as m))
        -- a filter on an array tests its elements, and no deeper
        when 'array' then pgq._filter_join('&&', v_condition
            || array(select format('exists(%s ? (%s))', item, pgq._filter_contain('@', e.value))
                from jsonb_array_elements(value) with ordinality as e (value, position)
                order by e.position))
        else pgq._filter_equal(item, value) end;
end
$$;
comment on function pgq._filter_contain(text, jsonb) is
    'The jsonpath condition of an item containing a JSON value.';
