-- A time in exact microseconds: a float is not exact beyond the year 2255. Stable like extract():
-- the planner inlines an immutable function only if its whole body is immutable.
create or replace function pgq._micros(moment timestamptz) returns bigint
language sql stable parallel safe
return (extract(epoch from moment) * 1000000)::bigint;
comment on function pgq._micros(timestamptz) is 'A finite time in microseconds since 1970.';
