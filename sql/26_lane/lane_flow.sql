-- The number under which limits count a lane. Not its lane_id: a lane that is empty is removed
-- while its messages are leased, and two publishers may make the same lane twice.
create or replace function pgq._lane_flow(label jsonb) returns bigint
language sql immutable parallel safe
return case when label is null then 1 else hashtextextended(label::text, 0) end;
comment on function pgq._lane_flow(jsonb) is 'The number under which limits count a lane.';
