-- Joins conditions (of a conjunction) that bound one field from both sides: $gte and $lt are
-- separate tests. If the field has several values, each bound may hold for another value.
create or replace function pgq._filter_bounds(choices jsonb)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(jsonb_agg(
            jsonb_build_array(r.base || jsonb_build_object('value', jsonb_build_array(
                case r.base ->> 'kind' when 'range' then to_jsonb(r.low_number)
                    else to_jsonb(r.low_text) end,
                case r.base ->> 'kind' when 'range' then to_jsonb(r.high_number)
                    else to_jsonb(r.high_text) end)))
            || case r.base ->> 'in' when 'payload'
                then jsonb_build_array(r.base || '{"kind": "several"}') else '[]' end), '[]')
        from (
            select (c.choice -> 0) - 'value' as base,
                max(case b.numbers when true then b.low::numeric end) as low_number,
                min(case b.numbers when true then b.high::numeric end) as high_number,
                max(case b.numbers when false then b.low end collate "C") as low_text,
                min(case b.numbers when false then b.high end collate "C") as high_text
            from jsonb_array_elements(choices) as c (choice),
                lateral (select c.choice -> 0 ->> 'kind' = 'range',
                    c.choice -> 0 -> 'value' ->> 0, c.choice -> 0 -> 'value' ->> 1)
                    as b (numbers, low, high)
            where jsonb_array_length(c.choice) = 1
                and c.choice -> 0 ->> 'kind' in ('range', 'text range')
            group by 1 having count(*) > 1
        ) as r);
end
$$;
comment on function pgq._filter_bounds(jsonb) is
    'Joins conditions that bound a field from both sides.';
