-- Whether a set holds a message that matches a filter. Claims without a filter do not pay for the
-- test: a function that is not called costs less than a subquery that is not run.
create or replace function pgq._any_matches(
    filter pgq.filter, ids int8multirange, attempt int, now timestamptz
) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_path jsonpath := (array[filter.path])[1];  -- unpacked once: see pgq._find_matches
begin
    return exists (
        select from unnest(ids) u (ids)
        join pgq.message m on m.id >= lower(u.ids) and m.id < upper(u.ids)
        where pgq._matches(v_path, filter.scope, m, attempt, now));
end
$$;
comment on function pgq._any_matches(pgq.filter, int8multirange, int, timestamptz) is
    'Whether a set holds a message that matches a filter.';
