-- The values that a field of a match can have, as an array: from tests of equality and membership.
-- A JSON null stands for a missing field too. NULL: the filter has no such test.
create or replace function pgq._filter_values(tree jsonb, field text, prefix text default null)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operator constant text := tree ->> 'op';
    v_of constant jsonb := tree -> 'of';
    v_value constant jsonb := tree -> 'value';
    v_field text;
begin
    if jsonb_typeof(tree) = 'boolean' then
        return case when tree = 'false' then '[]'::jsonb end;
    elsif v_operator = 'and' then
        return (
            select v."values"
            from jsonb_array_elements(v_of) t (tree)
            cross join lateral (
                select pgq._filter_values(t.tree, field, prefix) as "values") v
            where v."values" is not null
            order by jsonb_array_length(v."values") limit 1);
    elsif v_operator = 'or' then
        return (
            select case when bool_and(v."values" is not null) then
                       coalesce(jsonb_path_query_array(jsonb_agg(v."values"), '$[*][*]'), '[]') end
            from jsonb_array_elements(v_of) t (tree)
            cross join lateral (
                select pgq._filter_values(t.tree, field, prefix) as "values") v);
    elsif v_operator = 'not' and v_of ->> 'op' = 'not' then
        return pgq._filter_values(v_of -> 'of', field, prefix);
    end if;
    v_field := pgq._filter_field(case v_operator when 'not' then v_of else tree end, prefix);
    return case
        when v_operator = 'each' then pgq._filter_values(v_value, field, v_field)
        when v_field is distinct from field then null
        when v_operator = 'eq' and jsonb_typeof(v_value) not in ('array', 'object') then
            jsonb_build_array(v_value)
        when v_operator = 'in' then v_value
        when v_operator = 'any' then pgq._filter_values(v_value, field, field)
        when v_operator = 'not' and (v_of ->> 'op' in ('some', 'exists')
                or v_of ->> 'op' = 'any' and v_of -> 'value' = 'true') then '[null]' end;
end
$$;
comment on function pgq._filter_values(jsonb, text, text) is
    'The values that a filter allows a field to have; NULL if it allows all.';
