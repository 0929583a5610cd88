-- Whether a ready row may hold a match, by its lane and its hash. The planner inlines it.
create or replace function pgq._in_lanes(lanes pgq._lanes, lane_id int, hash int) returns boolean
language sql immutable parallel safe
return lanes.kept is null or lane_id is null
    or lane_id = any (lanes.kept)
        and (lanes.hashes is null or hash is null or hash = any (lanes.hashes)
             or lane_id = any (lanes.stale));
comment on function pgq._in_lanes(pgq._lanes, int, int) is 'Whether a ready row may hold a match.';
