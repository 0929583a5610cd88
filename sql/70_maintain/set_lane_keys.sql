-- Changes the lane keys of a queue during maintenance. Does nothing while another transaction
-- changes the queue.
create or replace function pgq._set_lane_keys(queue pgq.queue, lane_keys text[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.queue q
    set lane_keys = nullif(_set_lane_keys.lane_keys, '{}'), lanes_full = false,
        unlaned_rows = q.unlaned_rows or q.lane_keys is null, unlaned_xid = null,
        unlaned_rank = null
    where q.ctid = any (array(
        select p.ctid from pgq.queue p
        where p.queue_id = queue.queue_id and p.auto_lanes
          and p.lane_keys is not distinct from queue.lane_keys for update skip locked));
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq._set_lane_keys(pgq.queue, text[]) is
    'Changes the lane keys of a queue.';
