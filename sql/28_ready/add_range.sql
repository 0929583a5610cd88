-- Makes ready rows of at most size ids from low to high, which share everything else.
create or replace function pgq._add_range(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, low bigint, high bigint, size int,
    suspect boolean default false, hash int default null
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
        failures, ids)
    select _add_range.queue_id, _add_range.lane_id, pgq._rank(_add_range.priority, back, i),
           _add_range.attempt, least(_add_range.size, high - i + 1), pg_current_xact_id(),
           _add_range.expires_at, _add_range.grouped, _add_range.suspect, _add_range.hash,
           _add_range.failures,
           int8multirange(int8range(i, least(i + _add_range.size, high + 1)))
    from generate_series(low, high, _add_range.size) i;
end
$$;
comment on function pgq._add_range(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint, bigint, int, boolean, int) is
    'Makes ready rows from a range of ids with equal properties.';
