-- A queue has too many lanes: from now on the lane key with the most values is hashed. Existing
-- lanes become stale, and maintain() empties them. The publisher that gets the lock on the queue's
-- row does it for all; the others do not wait.
create or replace function pgq._hash_lanes(queue_id int, lane_keys text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key int;
begin
    perform from pgq.queue q
    where q.queue_id = _hash_lanes.queue_id and q.lane_keys = _hash_lanes.lane_keys
      and not q.lanes_full
    for update skip locked;
    if not found then
        return;
    end if;
    -- Not if lanes have limits or take turns: these count all values of a hashed key as one lane.
    if pgq._hashed_key(lane_keys) is null and not exists (
        select from pgq.queue_limit l
        where l.queue_id = _hash_lanes.queue_id
          and (l.fair or num_nonnulls(l.lane_max_leased, l.lane_step) > 0))
    then
        select u.i::int into strict v_key
        from unnest(lane_keys) with ordinality u (key, i)
        order by (select count(distinct l.label -> (u.i - 1)::int) from pgq.lane l
                  where l.queue_id = _hash_lanes.queue_id
                    and l.lane_keys = _hash_lanes.lane_keys) desc, u.i
        limit 1;
        lane_keys[v_key] := '#' || lane_keys[v_key];
        update pgq.queue q set lane_keys = _hash_lanes.lane_keys
        where q.queue_id = _hash_lanes.queue_id;
    else
        update pgq.queue q set lanes_full = true where q.queue_id = _hash_lanes.queue_id;
        raise warning 'queue % has more than % lanes', queue_id, pgq._limit('lanes')
            using hint = 'One lane key of a queue may have any number of values, the others few: '
                'messages with new values share one overflow lane and are tested one by one.';
    end if;
end
$$;
comment on function pgq._hash_lanes(int, text[]) is
    'Hashes the values of a lane key, because there are too many lanes.';
