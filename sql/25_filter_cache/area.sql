-- A range of a field in an index: the values on the x axis, the field on the y axis.
create or replace function pgq._area(field bigint, texts boolean, low float8,
    high float8 default null)
returns box
language sql immutable parallel safe
return box(point(low, ((field & 1125899906842623) * 2 + texts::int)::float8),
           point(coalesce(high, low), ((field & 1125899906842623) * 2 + texts::int)::float8));
comment on function pgq._area(bigint, boolean, float8, float8) is
    'A range of a field, or one value of it, as a box.';
