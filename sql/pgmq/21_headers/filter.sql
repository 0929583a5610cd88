-- Translates the condition of a read, message @> conditional, field by field. $type keeps a filter
-- from matching elements of arrays, which @> does not do.
create or replace function pgmq._filter(conditional jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if conditional is null or conditional = '{}' then
        return null;
    elsif jsonb_typeof(conditional) <> 'object' then
        raise exception 'a condition must be an object'
            using errcode = 'invalid_parameter_value',
                  hint = 'It selects messages that contain its fields.';
    end if;
    return jsonb_build_object('$and', (
        select jsonb_agg(
            jsonb_build_object('$path', jsonb_build_array('payload', f.key)) || case
                when jsonb_typeof(f.value) = 'null' then jsonb_build_object('$eq', null)
                when jsonb_typeof(f.value) in ('array', 'object') then
                    jsonb_build_object('$contains', f.value, '$type', jsonb_typeof(f.value))
                else jsonb_build_object('$eq', f.value, '$type', jsonb_typeof(f.value)) end)
        from jsonb_each(conditional) f));
end
$$;
comment on function pgmq._filter(jsonb) is 'The filter of pgq that selects the same as @>.';
