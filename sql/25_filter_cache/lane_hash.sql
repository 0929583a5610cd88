-- The hash of a value of a hashed lane key. Null and missing ([]) count as one value. A value that
-- is not a scalar ({}) has the hash 0, which every filter scans. The parameter occurs once in the
-- body, so that the planner can inline the function: a call takes 2 us.
create or replace function pgq._lane_hash(value jsonb) returns int
language sql immutable parallel safe
return coalesce(nullif(
    (jsonb_hash_extended(coalesce(nullif(value, '[]'), 'null'), 0) & 1073741823)::int,
    (jsonb_hash_extended('{}', 0) & 1073741823)::int) + 1, 0);
comment on function pgq._lane_hash(jsonb) is 'The hash of a value of a hashed lane key.';
