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

-- Inserts the row that claims of a lane lock, and so locks it. False if the row exists, or if
-- another claim is inserting it at this moment.
create or replace function pgq._new_lane(queue_id int, lane bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1ms'
as $$
begin
    if exists (select from pgq.flow f
               where f.queue_id = _new_lane.queue_id and f.lane = _new_lane.lane
                 and f.full_at = 'epoch')
    then
        return false;
    end if;
    insert into pgq.flow (queue_id, lane, full_at)
    values (_new_lane.queue_id, _new_lane.lane, 'epoch')
    on conflict on constraint flow_pkey do nothing;
    return found;
exception
    when lock_not_available then
        return false;
end
$$;
comment on function pgq._new_lane(int, bigint) is 'Inserts the row that claims of a lane lock.';

-- When the token bucket of a queue or a lane is full.
create or replace function pgq._full_at(queue_id int, lane bigint) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select f.full_at from pgq.flow f
        where f.queue_id = _full_at.queue_id and f.lane = _full_at.lane
        order by f.full_at desc limit 1);
end
$$;
comment on function pgq._full_at(int, bigint) is 'When a token bucket is full.';

-- Takes tokens out of a bucket that is full at full_at. The new version of the row is at another
-- place of the index, where the next claim finds it first.
create or replace function pgq._spend(
    queue_id int, lane bigint, full_at timestamptz, step float8, tokens int, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_full timestamptz := greatest(full_at, now) + make_interval(secs => tokens * step);
begin
    update pgq.flow f set full_at = v_full
    where f.queue_id = _spend.queue_id and f.lane = _spend.lane and f.full_at = _spend.full_at
      and f.full_at > 'epoch';
    if not found then  -- the first tokens, or maintain() has removed a bucket that was full
        insert into pgq.flow (queue_id, lane, full_at)
        values (_spend.queue_id, _spend.lane, v_full);
    end if;
end
$$;
comment on function pgq._spend(int, bigint, timestamptz, float8, int, timestamptz) is
    'Takes tokens out of a bucket.';
