-- The ranges of the log in which to read the messages of a set. Each range is one search in an
-- index, which costs as much as reading about ten messages. So a set with small gaps is read as one
-- range. This range then also holds ids of others: among is the set, and null for other ranges.
-- The planner inlines it, and because of OFFSET computes it once for a range and not for each
-- message.
create or replace function pgq._spans(
    ids int8multirange, size int, out first bigint, out behind bigint, out among int8multirange
) returns setof record
language sql immutable parallel safe
begin atomic
    select lower(s.ids), upper(s.ids),
           case when upper(_spans.ids) - lower(_spans.ids)
                     between _spans.size + 1
                         and pgq._limit('range_factor')::bigint * _spans.size
           then _spans.ids end
    from unnest(
        case when upper(_spans.ids) - lower(_spans.ids)
                  <= pgq._limit('range_factor')::bigint * _spans.size
        then int8multirange(range_merge(_spans.ids)) else _spans.ids end) s (ids)
    offset 0;
end;
comment on function pgq._spans(int8multirange, int) is
    'The ranges of the log in which to read the messages of a set.';
