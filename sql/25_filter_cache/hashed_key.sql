-- Which of the lane keys is hashed; null: none.
create or replace function pgq._hashed_key(lane_keys text[]) returns int
language sql immutable parallel safe
return case '#'
    when left(lane_keys[1], 1) then 1
    when left(lane_keys[2], 1) then 2
    when left(lane_keys[3], 1) then 3
    when left(lane_keys[4], 1) then 4 end;
comment on function pgq._hashed_key(text[]) is 'Which of the lane keys is hashed.';
