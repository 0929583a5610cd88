-- The hash of a value of a hashed lane key. Null and missing ([]) count as one value. A value that
-- is not a scalar ({}) has the hash 0, which every filter scans. The parameter occurs once in the
-- body, so that the planner can inline the function: a call takes 2 us.
create or replace function pgq._lane_hash(value jsonb) returns int
language sql immutable parallel safe
return coalesce(nullif(
    (jsonb_hash_extended(coalesce(nullif(value, '[]'), 'null'), 0) & 1073741823)::int,
    (jsonb_hash_extended('{}', 0) & 1073741823)::int) + 1, 0);
comment on function pgq._lane_hash(jsonb) is 'The hash of a value of a hashed lane key.';

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
