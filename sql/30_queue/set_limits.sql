-- Stores the limits of a queue; null: none.
create or replace function pgq._set_limits(queue_id int, limits pgq.queue_limit) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Waits for claims in progress, which know the old limits.
    perform from pgq.flow f
    where f.queue_id = _set_limits.queue_id
      and f.lane between pgq._shard_lane(0) and pgq._shard_lane(15) and f.full_at = 'epoch'
    order by f.lane for update;
    delete from pgq.queue_limit l where l.queue_id = _set_limits.queue_id;
    if limits.queue_id is not null then
        limits.queue_id := _set_limits.queue_id;
        insert into pgq.queue_limit select limits.*;
        insert into pgq.flow (queue_id, lane, full_at)
        select _set_limits.queue_id, pgq._shard_lane(s), 'epoch' from generate_series(0, 15) s
        on conflict on constraint flow_pkey do nothing;
    end if;
    -- Consumers that sleep may have been waiting for a limit.
    perform pgq._wake(_set_limits.queue_id);
end
$$;
comment on function pgq._set_limits(int, pgq.queue_limit) is 'Stores the limits of a queue.';
