-- The part of a set that belongs to a slice: one of every "of" blocks of 64 ids. So a message stays
-- in its slice when others leave the set, and neighbours are read together.
create or replace function pgq._slice_ranges(ids int8multirange, slice int, "of" int)
returns setof int8range
language sql immutable parallel safe
begin atomic
    select r * int8range(b << 6, (b + 1) << 6)
    from unnest(ids) r
    cross join lateral generate_series(
        (lower(r) >> 6) + ((slice - (lower(r) >> 6)) % "of" + "of") % "of",
        (upper(r) - 1) >> 6, "of") b;
end;
comment on function pgq._slice_ranges(int8multirange, int, int) is
    'The part of a set of ids that belongs to a slice.';
