-- Makes ready rows from sorted ids that share a label, in the lane of the label; null: the queue
-- has no lanes.
create or replace function pgq._add_laned(
    queue pgq.queue, label jsonb, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], hashes int[], suspect boolean default false
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lane_id int;
begin
    if label is not null then
        v_lane_id := pgq._lane(queue.queue_id, queue.lane_keys, queue.lanes_full, label);
    end if;
    if hashes[1] is null or hashes[1] = all (hashes) then
        perform pgq._add_ready(queue.queue_id, v_lane_id, priority, back, attempt, expires_at,
                               failures, grouped, ids, queue.set_size, suspect, hashes[1]);
    else
        perform pgq._add_hashed(queue.queue_id, v_lane_id, priority, back, attempt, expires_at,
                                failures, grouped, ids, hashes, queue.set_size, suspect);
    end if;
end
$$;
comment on function pgq._add_laned(
    pgq.queue, jsonb, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int[], boolean) is
    'Makes ready rows from sorted ids in the lane of their label.';
