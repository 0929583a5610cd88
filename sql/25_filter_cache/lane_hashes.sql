-- The hashes that a match of a filter can have; null: any, or no lane key is hashed.
create or replace function pgq._lane_hashes(tree jsonb, lane_keys text[]) returns int[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key constant text := substr(lane_keys[pgq._hashed_key(lane_keys)], 2);
    v_values constant jsonb := pgq._filter_values(tree, v_key);
begin
    if v_values is null then
        return null;
    end if;
    return array(
        select distinct pgq._lane_hash(v.value) from jsonb_array_elements(v_values) v (value)
        union select 0 where v_key like 'payload.%'
        order by 1);
end
$$;
comment on function pgq._lane_hashes(jsonb, text[]) is
    'The hashes that the hashed lane key of a match can have.';
