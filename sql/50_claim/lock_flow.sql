-- Waits for the claim that has locked a lane or a shard; false if it keeps its transaction open.
-- Locks the row of 1970, which nobody changes: waiting claims leave no dead rows behind.
create or replace function pgq._lock_flow(queue_id int, lane bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
begin
    perform from pgq.flow f
    where f.queue_id = _lock_flow.queue_id and f.lane = _lock_flow.lane and f.full_at = 'epoch'
    for update;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._lock_flow(int, bigint) is
    'Waits for the claim that has locked a lane or a shard.';
