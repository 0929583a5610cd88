-- The operand of numeric -> tree: one comparison, or a range whose lower bound comes first.
create or replace function pgq._filter_numeric(operand jsonb, scope text, path text[], at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Write ["=", 5], [">", 0] or [">", 0, "<=", 150].';
    v_names constant jsonb := '{">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}';
    v_low jsonb := operand -> 1;
    v_high jsonb := operand -> 3;
begin
    if jsonb_typeof(operand) <> 'array' or jsonb_array_length(operand) not in (2, 4)
            or jsonb_typeof(v_low) <> 'number' or jsonb_typeof(v_high) <> 'number' then
        perform pgq._filter_error('numeric takes comparisons with numbers', at, v_hint);
    elsif exists (select from unnest(array[v_low, v_high]) as n (number)
            where n.number::numeric <> 0
                and abs(n.number::numeric) not between 4.9e-324 and 1.7976931348623157e308) then
        perform pgq._filter_error('the number is out of range', at,
            'Compare with a number that fits into a double.');
    elsif v_high is null and operand ->> 0 = '=' then
        return pgq._filter_membership(scope, path, jsonb_build_array(v_low), at);
    elsif not v_names ? coalesce(operand ->> 0, '') or v_high is not null
            and (operand ->> 0 not in ('>', '>=') or operand ->> 2 not in ('<', '<=')) then
        perform pgq._filter_error('numeric takes one comparison for each end', at,
            v_hint || ' The lower bound comes first.');
    elsif v_high::numeric <= v_low::numeric then
        perform pgq._filter_error('the range is empty', at,
            'The lower bound must be less than the upper one.');
    end if;
    return pgq._filter_range(scope, path, jsonb_strip_nulls(jsonb_build_object(
        v_names ->> (operand ->> 0), v_low,
        coalesce(v_names ->> (operand ->> 2), 'none'), v_high)), at);
end
$$;
comment on function pgq._filter_numeric(jsonb, text, text[], text) is
    'Validates the operand of numeric and gives its tree.';
