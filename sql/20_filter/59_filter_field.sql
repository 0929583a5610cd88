-- The name of the field that a leaf tests, as lane keys write it; null if a key holds a dot. Inside
-- the value of another leaf, prefix is the name of that leaf's field.
create or replace function pgq._filter_field(leaf jsonb, prefix text default null)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_keys constant text[] := array(select jsonb_array_elements_text(leaf -> 'path'));
begin
    return case
        when array_to_string(v_keys, '') like '%.%' then null
        when leaf ->> 'in' = 'headers' then v_keys[1]
        else array_to_string(coalesce(prefix, leaf ->> 'in') || v_keys, '.') end;
end
$$;
comment on function pgq._filter_field(jsonb, text) is
    'The name of the field that a leaf of a syntax tree tests.';
