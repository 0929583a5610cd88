-- The values of the lane keys in order; [] for one that is missing or hashed, {} for one that is
-- not a scalar.
create or replace function pgq._lane_label(m pgq.message, lane_keys text[]) returns jsonb
language sql stable parallel safe
return jsonb_build_array(
    pgq._lane_value(m, lane_keys[1]),
    pgq._lane_value(m, lane_keys[2]),
    pgq._lane_value(m, lane_keys[3]),
    pgq._lane_value(m, lane_keys[4]));
comment on function pgq._lane_label(pgq.message, text[]) is
    'The values that the messages of a lane share.';
