-- Refuses an operand of cidr that is not a network.
create or replace function pgq._filter_check_cidr(operand jsonb, at text)
returns void
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Write {"cidr": "10.0.0.0/24"} or {"cidr": "2001:db8::/32"}; '
        'name a single address as a value.';
    v_network inet;
begin
    if jsonb_typeof(operand) is distinct from 'string' or (operand #>> '{}')
            !~ '^([0-9]{1,3}([.][0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:]*)/[0-9]{1,3}$' then
        perform pgq._filter_error('cidr takes a network', at, v_hint);
    end if;
    begin
        v_network := (operand #>> '{}')::inet;
    exception when data_exception then
        perform pgq._filter_error('cidr takes a network', at, v_hint);
    end;
    if masklen(v_network) >= (case family(v_network) when 4 then 32 else 128 end) then
        perform pgq._filter_error('cidr takes more than one address', at, v_hint);
    end if;
end
$$;
comment on function pgq._filter_check_cidr(jsonb, text) is
    'Validates the operand of cidr; QU004 if it is not a network.';
