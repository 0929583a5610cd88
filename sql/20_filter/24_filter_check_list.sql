-- Refuses an operand that is not a list, is empty, is too long, or holds more than scalars.
create or replace function pgq._filter_check_list(operand jsonb, scalars boolean, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(operand) is distinct from 'array' then
        perform pgq._filter_error('the operand must be a list', at,
            'Write the values in brackets: ["a", "b"]');
    elsif jsonb_array_length(operand) = 0 then
        perform pgq._filter_error('the list is empty', at, 'Name at least one value.');
    elsif jsonb_array_length(operand) > 1000 then
        perform pgq._filter_error('the list is too long', at,
            'A list has at most 1000 values; give the messages a header that says the same.');
    elsif scalars and jsonb_path_exists(operand,
            'strict $[*] ? (@.type() == "array" || @.type() == "object")') then
        perform pgq._filter_error('the list must hold strings, numbers, booleans or null', at,
            'Compare whole arrays and objects with $eq.');
    end if;
end
$$;
comment on function pgq._filter_check_list(jsonb, boolean, text) is
    'Validates a list operand; QU004 if it cannot be used.';
