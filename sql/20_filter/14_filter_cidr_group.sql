-- One group of an IPv6 address of which the first bits are fixed, as a regular expression: four
-- hexadecimal digits, and fewer where those in front may be 0.
create or replace function pgq._filter_cidr_group(value int, bits int)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_any constant text := '[0-9a-fA-F]';
    v_free int;
    v_low int;
    v_zeros int := 0;
    v_rest text := '';
begin
    if bits <= 0 then
        return v_any || '{1,4}';
    end if;
    for i in 1 .. least((bits + 3) / 4, 4) loop
        v_free := 1 << greatest(i * 4 - bits, 0);
        v_low := (value >> (16 - i * 4)) & 15;
        v_low := v_low - v_low % v_free;
        if v_low = 0 and v_free = 1 and v_zeros = i - 1 then
            v_zeros := i;
        elsif v_low = 0 and v_zeros = i - 1 and i < 4 then
            -- the digit may be 0 and left out
            return format('0{0,%s}(?:[%s]%s{%s}|%3$s{1,%4$s})', v_zeros,
                left('00112233445566778899', v_free * 2), v_any, 4 - i);
        else
            v_rest := v_rest || case when v_free = 1 and v_low < 10 then v_low::text
                else format('[%s]', substr('00112233445566778899aAbBcCdDeEfF', v_low * 2 + 1,
                    v_free * 2)) end;
        end if;
    end loop;
    return case
        when v_zeros = 4 then '0{1,4}'
        when bits > 12 then format('0{0,%s}%s', v_zeros, v_rest)
        when v_rest <> '' then format('0{0,%s}%s%s{%s}', v_zeros, v_rest, v_any, 4 - (bits + 3) / 4)
        else format('0{0,%s}%s{1,%s}', v_zeros, v_any, 4 - v_zeros) end;
end
$$;
comment on function pgq._filter_cidr_group(int, int) is
    'The regular expression of one group of an IPv6 address whose first bits are fixed.';
