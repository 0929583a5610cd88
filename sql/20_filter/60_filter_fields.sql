-- The fields that a filter tests and that can be lane keys.
create or replace function pgq._filter_fields(tree jsonb, prefix text default null)
returns setof text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_field text;
begin
    if tree ->> 'op' = 'not' then
        return query select * from pgq._filter_fields(tree -> 'of', prefix);
    elsif tree ? 'of' then
        return query
            select distinct f.field from jsonb_array_elements(tree -> 'of') t (tree)
            cross join lateral pgq._filter_fields(t.tree, prefix) f (field);
    elsif tree ->> 'op' = 'each' then
        return query
            select * from pgq._filter_fields(tree -> 'value', pgq._filter_field(tree, prefix));
    elsif tree ? 'in' then
        v_field := pgq._filter_field(tree, prefix);
        if v_field !~ '[#$]' and (v_field not like '%.%' or v_field like 'payload.%' or v_field ~
            '^msg[.](topic|sender|recipient|reply_to|correlation_id|group_key)$')
        then
            return next v_field;
        end if;
    end if;
end
$$;
comment on function pgq._filter_fields(jsonb, text) is
    'The fields that a filter tests and that can be lane keys.';
