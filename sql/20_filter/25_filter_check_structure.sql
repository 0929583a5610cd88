-- Refuses an array or object operand that is too large or too deep to be compared.
create or replace function pgq._filter_check_structure(operand jsonb, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- the strict path counts the operand itself, too
    if (select count(*) from jsonb_path_query(operand, 'strict $.**')) > 1001 then
        perform pgq._filter_error('the operand is too large', at,
            'An array or object to compare with holds at most 1000 values.');
    elsif jsonb_path_exists(operand, 'strict $.**{9}') then
        perform pgq._filter_error('the operand is nested too deeply', at,
            'An array or object to compare with is nested at most 8 levels deep.');
    end if;
end
$$;
comment on function pgq._filter_check_structure(jsonb, text) is
    'Validates an array or object operand; QU004 if it is over a limit.';
revoke all on function pgq._filter_check_structure(jsonb, text) from public;
