-- Refuses an array or object operand that is too large or too deep to be compared. Returns the
-- number of values in it.
create or replace function pgq._filter_check_structure(operand jsonb, at text)
returns int
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    -- the strict path counts the operand itself, too
    v_values int := (
        select count(*) - 1 from jsonb_path_query(operand, 'strict $.**'))::int;
begin
    if v_values > 1000 then
        perform pgq._filter_error('the operand is too large', at,
            'An array or object to compare with holds at most 1000 values.');
    elsif jsonb_path_exists(operand, 'strict $.**{9}') then
        perform pgq._filter_error('the operand is nested too deeply', at,
            'An array or object to compare with is nested at most 8 levels deep.');
    end if;
    return v_values;
end
$$;
comment on function pgq._filter_check_structure(jsonb, text) is
    'Validates an array or object operand and counts its values; QU004 if it is over a limit.';
