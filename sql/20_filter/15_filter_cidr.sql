-- The texts that are an address of this network, as a regular expression. An IPv4 address is four
-- numbers without leading zeros; an IPv6 address may leave out one run of zero groups.
create or replace function pgq._filter_cidr(network inet)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bits constant int := masklen(network);
    v_fixed constant int := (v_bits + 15) / 16;
    v_hex constant text := encode(substr(inet_send(network), 5), 'hex');
    v_value int;
    v_free int;
    v_groups text[] := '{}';
    v_zero boolean[] := '{}';
    v_spellings text[];
    v_rest int;
begin
    if family(network) = 4 then
        for i in 1 .. 4 loop
            v_value := ('x' || substr(v_hex, i * 2 - 1, 2))::bit(8)::int;
            v_free := 1 << least(greatest(i * 8 - v_bits, 0), 8);
            v_value := v_value - v_value % v_free;
            v_groups := v_groups || case v_free
                when 256 then '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
                else '(?:' || (select string_agg(n.number::text, '|')
                    from generate_series(v_value, v_value + v_free - 1) as n (number)) || ')' end;
        end loop;
        return '^' || array_to_string(v_groups, E'\\.') || '$';
    end if;
    for i in 1 .. 8 loop
        v_value := ('x' || substr(v_hex, i * 4 - 3, 4))::bit(16)::int;
        v_free := 1 << least(greatest(i * 16 - v_bits, 0), 16);
        v_groups := v_groups || pgq._filter_cidr_group(v_value, v_bits - (i - 1) * 16);
        v_zero := v_zero || (v_value < v_free);
    end loop;
    v_spellings := array[array_to_string(v_groups, ':')];
    for i in 0 .. 7 loop
        -- :: after i groups; behind it only groups that are free, or also some that are fixed
        if true = all (v_zero[i + 1:v_fixed]) then
            v_rest := least(7 - i, 8 - v_fixed);
            v_spellings := v_spellings || (array_to_string(v_groups[:i], ':') || '::' || case v_rest
                when 0 then ''
                else format('(?:%s(?::%1$s){0,%s})?', v_groups[8], v_rest - 1) end);
        end if;
        for j in 9 - v_fixed .. 7 - i loop
            if true = all (v_zero[i + 1:8 - j]) then
                v_spellings := v_spellings || (array_to_string(v_groups[:i], ':') || '::'
                    || array_to_string(v_groups[9 - j:], ':'));
            end if;
        end loop;
    end loop;
    return '^(?:' || array_to_string(v_spellings, '|') || ')$';
end
$$;
comment on function pgq._filter_cidr(inet) is
    'The regular expression of the addresses of a network.';
