-- A field name as {scope, key, key, ...}; inside a block, names are relative to the block.
create or replace function pgq._filter_parse_name(
    name text, scope text, prefix text[], at text)
returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_keys text[] := string_to_array(name, '.');
    v_scope text := scope;
    v_key text;
begin
    if name = '' then
        v_keys := array[''];
    end if;
    if scope is null then
        if v_keys[1] in ('headers', 'payload', 'msg') and cardinality(v_keys) > 1 then
            v_scope := v_keys[1];
            v_keys := v_keys[2:];
        elsif cardinality(v_keys) = 1 then
            v_scope := 'headers';
        else
            perform pgq._filter_error('a path must start with headers, payload or msg', at,
                'Write "payload.' || left(name, 64) || '" for a field of the payload, or '
                '{"$path": ["headers", "a.b"], ...} for a header with a dot in its name.');
        end if;
    end if;
    foreach v_key in array v_keys loop
        if v_key = '' or v_key like '$%' then
            perform pgq._filter_error('invalid key ' || left(to_json(v_key)::text, 64), at,
                'Dots separate keys; a key is not empty and does not begin with $. Write any other '
                'as ' || case when scope is null then '{"$path": ["payload", "a.b"], "$eq": ...}.'
                    else '{"$path": ["a.b"], "$eq": ...}: in a block $path is relative to it.' end);
        elsif length(v_key) > 128 then
            perform pgq._filter_error('the key is too long', at,
                'A key has at most 128 characters.');
        end if;
    end loop;
    perform pgq._filter_check_path(v_scope, prefix || v_keys, at);
    return v_scope || (prefix || v_keys);
end
$$;
comment on function pgq._filter_parse_name(text, text, text[], text) is
    'Splits and validates a field name of a filter; QU004 if it cannot be used.';
