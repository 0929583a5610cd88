-- The values of the lane keys, in order. Header values are scalars, so [] can say "missing".
create or replace function pgq._lane_label(headers jsonb, lane_keys text[]) returns jsonb
language sql stable parallel safe
return jsonb_build_array(
    coalesce(headers -> lane_keys[1], '[]'),
    coalesce(headers -> lane_keys[2], '[]'),
    coalesce(headers -> lane_keys[3], '[]'),
    coalesce(headers -> lane_keys[4], '[]'));
comment on function pgq._lane_label(jsonb, text[]) is 'What the messages of a lane have in common.';
revoke all on function pgq._lane_label(jsonb, text[]) from public;
