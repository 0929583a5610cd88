-- The operand of $path as {scope, key, key, ...}; inside a block, it is relative to the block.
create or replace function pgq._filter_parse_path(
    operand jsonb, scope text, prefix text[], at text)
returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Write {"$path": ["payload", "a.b", "c"], "$eq": 1}: '
        'a list of keys, with headers, payload or msg in front unless a block names it.';
    v_keys text[];
    v_scope text := scope;
begin
    if jsonb_typeof(operand) is distinct from 'array' or jsonb_array_length(operand) = 0
            or jsonb_path_exists(operand, 'strict $[*] ? (@.type() != "string")') then
        perform pgq._filter_error('$path must be a list of keys', at, v_hint);
    end if;
    v_keys := array(select jsonb_array_elements_text(operand));
    if scope is null then
        if v_keys[1] not in ('headers', 'payload', 'msg') or cardinality(v_keys) = 1 then
            perform pgq._filter_error('$path must name a scope and a key', at, v_hint);
        end if;
        v_scope := v_keys[1];
        v_keys := v_keys[2:];
    end if;
    if (select bool_or(length(k.key) not between 1 and 128) from unnest(v_keys) as k (key)) then
        perform pgq._filter_error('$path has an empty key, or one that is too long', at,
            'A key has 1 to 128 characters.');
    end if;
    perform pgq._filter_check_path(v_scope, prefix || v_keys, at);
    return v_scope || (prefix || v_keys);
end
$$;
comment on function pgq._filter_parse_path(jsonb, text, text[], text) is
    'Validates the operand of $path; QU004 if it cannot be used.';
