-- When a rate limit may let the next message through: the time of the next token. Null: unknown. A
-- consumer at the max_leased limit is woken by an ack, or by the end of a lease.
create or replace function pgq._next_slot(queue pgq.queue, waiter text, now timestamptz)
returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit pgq.queue_limit;
    v_burst int;
    v_count int;
    v_tokens timestamptz[];
begin
    select l.* into v_limit from pgq.queue_limit l where l.queue_id = queue.queue_id;
    v_count := pgq._shards(v_limit);
    if not exists (select from pgq.ready r where r.queue_id = queue.queue_id)
       or v_limit.max_leased <= pgq._in_flight(queue.queue_id, null, null)
    then
        return null;
    end if;
    if num_nonnulls(v_limit.max_leased, v_limit.step) > 0 and (
        select count(*) from (
            select from pgq.flow f
            where f.queue_id = queue.queue_id
              and f.lane between pgq._shard_lane(0) and pgq._shard_lane(15)
              and f.full_at = 'epoch'
            for update skip locked) s) < 16
    then
        return now + interval '100 ms';  -- a concurrent claim has locked a shard
    end if;
    if v_limit.step is not null then
        v_burst := pgq._burst(v_limit.rate, v_limit.burst);
        v_tokens := array(
            select pgq._tokens_at(b.full_at, v_limit.step * v_count, b.burst, n)
            from (select pgq._full_at(queue.queue_id, pgq._shard_lane(s)) as full_at,
                         pgq._shard_burst(v_burst, v_count, s) as burst
                  from generate_series(0, v_count - 1) s) b
            cross join lateral generate_series(1, b.burst) n
            order by 1);
        if v_tokens[1] > now then
            -- The first listener gets the first token, the second one the second.
            return v_tokens[least(cardinality(v_tokens), (
                select 1 + count(*) from pgq.waiter w
                where w.queue_id = queue.queue_id and w.until > now
                  and w.waiter < _next_slot.waiter)::int)];
        end if;
    end if;
    if v_limit.lane_step is null then
        return null;
    end if;
    v_burst := pgq._burst(v_limit.lane_rate, v_limit.lane_burst);
    return (
        select min(pgq._tokens_at(f.full_at, v_limit.lane_step, v_burst, 1))
        from pgq.lane l
        join pgq.flow f on f.queue_id = l.queue_id and f.lane = pgq._lane_flow(l.label)
        where l.queue_id = queue.queue_id and f.full_at > now
          and pgq._tokens(f.full_at, v_limit.lane_step, v_burst, now) < 1
          and exists (select from pgq.ready r where r.lane_id = l.lane_id));
end
$$;
comment on function pgq._next_slot(pgq.queue, text, timestamptz) is
    'When a limit may let the next message through.';
