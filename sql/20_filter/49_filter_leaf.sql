-- The condition of a leaf: which items its path selects, and how they are tested.
-- root is the part of the message that $ stands for, or item for @.
create or replace function pgq._filter_leaf(leaf jsonb, root text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operator constant text := leaf ->> 'op';
    v_value constant jsonb := leaf -> 'value';
    v_scope constant text := leaf ->> 'in';
    v_path text := case
        when root = 'item' then '@'
        when root = 'message' then format('$."%s"', v_scope)
        when root = 'content' and v_scope = 'headers' then '$"headers"'
        else '$' end;
    v_parent text;
    v_key text;
begin
    if v_operator in ('any', 'each') then
        return pgq._filter_any(leaf, v_path);
    end if;
    for v_key in select jsonb_array_elements_text(leaf -> 'path') loop
        v_parent := v_path;
        v_path := v_path || '.' || to_json(v_key)::text;
    end loop;
    if v_parent is null then
        return pgq._filter_item(v_operator, v_value, v_path);
    end if;
    -- one element is enough; a bare comparison unwraps an array, one level deep, but may be
    -- unknown: inside an item the complement of unknown stays unknown
    case
        when root <> 'item' and v_operator = 'eq'
                and jsonb_typeof(v_value) not in ('array', 'object') then
            return format('%s == %s', v_path, v_value);
        when root <> 'item' and v_operator = 'in' and jsonb_array_length(v_value) <= 3 then
            return '(' || (select string_agg(format('%s == %s', v_path, v.value), ' || ')
                from jsonb_array_elements(v_value) as v (value)) || ')';
        when root <> 'item' and v_operator in ('like', 'ilike', 'prefix', 'suffix', 'substr',
                'ieq', 'wildcard', 'topic', 'regex', 'iregex', 'cidr') then
            return v_path || pgq._filter_text(v_operator, v_value #>> '{}');
        when root <> 'item' and v_operator = 'range'
                and (select count(*) from jsonb_object_keys(v_value)) = 1 then
            return v_path || (select case b.key when 'gt' then ' > ' when 'gte' then ' >= '
                when 'lt' then ' < ' else ' <= ' end || pgq._filter_literal(b.value)
                from jsonb_each(v_value) as b);
        when v_operator in ('exists', 'some', 'type') then
            return pgq._filter_item(v_operator, v_value, v_path);
        when v_operator in ('all', 'size', 'elem') or (v_operator in ('eq', 'contains')
                and jsonb_typeof(v_value) = 'array') then
            return format('exists(%s ? (@.type() == "object" && %s))', v_parent, pgq._filter_item(
                v_operator, v_value, '@.' || to_json(v_key)::text));
        when v_operator = 'in' then
            return format('exists(%s ? (%s))', v_path, pgq._filter_among(v_value));
        when v_operator = 'contains' then
            return format('exists(%s ? (%s))', v_path, pgq._filter_contain('@', v_value));
        else
            return format('exists(%s ? (%s))', v_path,
                pgq._filter_item(v_operator, v_value, '@'));
    end case;
end
$$;
comment on function pgq._filter_leaf(jsonb, text) is
    'The jsonpath condition of a leaf of the syntax tree.';
