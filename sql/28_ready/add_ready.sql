-- Makes ready rows of at most size ids from sorted ids that share everything else.
create or replace function pgq._add_ready(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], size int,
    suspect boolean default false, hash int default null
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := ids[1];
    v_high bigint := ids[cardinality(ids)];
begin
    if v_high - v_low + 1 = cardinality(ids) then
        perform pgq._add_range(queue_id, lane_id, priority, back, attempt, expires_at, failures,
                               grouped, v_low, v_high, size, suspect, hash);
        return;
    end if;
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
        failures, ids)
    select _add_ready.queue_id, _add_ready.lane_id,
           pgq._rank(_add_ready.priority, back, min(i)), _add_ready.attempt, count(*),
           pg_current_xact_id(), _add_ready.expires_at, _add_ready.grouped, _add_ready.suspect,
           _add_ready.hash,
           _add_ready.failures,
           range_agg(int8range(i, i + 1))
    from unnest(_add_ready.ids) with ordinality u (i, n)
    group by (n - 1) / _add_ready.size;
end
$$;
comment on function pgq._add_ready(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int, boolean, int) is
    'Makes ready rows from sorted ids with equal properties.';
