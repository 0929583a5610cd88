-- The jsonpath steps of a path as SNS and EventBridge walk it: through arrays in arrays, four
-- levels deep, and through keys that hold a dot, because {"a.b": 1} is {"a": {"b": 1}} for them.
-- A path of n keys has 2^(n - 1) spellings; plain returns only the first, and a path of more than
-- four keys has no other.
create or replace function pgq._filter_spellings(path jsonb, plain boolean)
returns text[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last constant int := jsonb_array_length(path) - 1;
    v_spellings text[] := '{}';
    v_steps text;
    v_key text;
begin
    for v_dots in 0 .. case when plain or v_last > 3 then 0 else (1 << v_last) - 1 end loop
        v_steps := '';
        v_key := '';
        for i in 0 .. v_last loop
            v_key := v_key || (path ->> i);
            -- bit i of v_dots: a dot after the key instead of a step
            if (v_dots >> i) & 1 = 1 then
                v_key := v_key || '.';
            else
                v_steps := v_steps || format('.%s[*][*][*]', to_json(v_key));
                v_key := '';
            end if;
        end loop;
        v_spellings := v_spellings || v_steps;
    end loop;
    return v_spellings;
end
$$;
comment on function pgq._filter_spellings(jsonb, boolean) is
    'The jsonpath steps by which a policy reaches a field, one for each spelling of its keys.';
