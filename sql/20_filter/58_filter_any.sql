-- The condition of a leaf of a policy: any scalar of the field passes (op any), or any object of it
-- (op each). base is $ or @ as pgq._filter_leaf names it.
create or replace function pgq._filter_any(leaf jsonb, base text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_value constant jsonb := leaf -> 'value';
    v_operator constant text := v_value ->> 'op';
    v_test text;
begin
    case
        when leaf ->> 'op' = 'each' then
            v_test := format(' ? (%s)', pgq._filter_condition(v_value, 'item'));
        when base <> '@' and v_operator = 'eq' then
            -- a comparison tests each item separately; it may be unknown, which counts as false at
            -- the root, but not inside an item
            v_test := format(' == %s', v_value -> 'value');
        when base <> '@' and v_operator in ('prefix', 'suffix', 'wildcard', 'ieq', 'ilike', 'cidr')
        then
            v_test := pgq._filter_text(v_operator, v_value ->> 'value');
        when v_value = 'true' then
            v_test := ' ? (@.type() != "object" && @.type() != "array")';
        when jsonb_path_exists(v_value, '$.**."op" ? (@ == "not")') then
            v_test := format(' ? (@.type() != "object" && @.type() != "array" && %s)',
                pgq._filter_condition(v_value, 'item'));
        else
            v_test := format(' ? (%s)', pgq._filter_condition(v_value, 'item'));
    end case;
    return pgq._filter_join('||', array(
        select format(case when left(v_test, 3) = ' ? ' then 'exists(%s%s%s)' else '%s%s%s' end,
            base, s.spelling, v_test)
        from unnest(pgq._filter_spellings(leaf -> 'path', leaf ? 'plain')) with ordinality
            as s (spelling, position)
        order by s.position));
end
$$;
comment on function pgq._filter_any(jsonb, text) is
    'The jsonpath condition of a leaf that stands for a list of a policy.';
