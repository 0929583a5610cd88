-- How many messages the rate of a queue lets through at this moment; null: it has none.
create or replace function pgq._queue_tokens(limits pgq.queue_limit, now timestamptz) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := pgq._shards(limits);
begin
    if limits.step is null then
        return null;
    end if;
    return (
        select sum(pgq._tokens(
            (select max(f.full_at) from pgq.flow f
             where f.queue_id = limits.queue_id and f.lane = pgq._shard_lane(s)),
            limits.step * v_count,
            pgq._shard_burst(pgq._burst(limits.rate, limits.burst), v_count, s),
            _queue_tokens.now))
        from generate_series(0, v_count - 1) s);
end
$$;
comment on function pgq._queue_tokens(pgq.queue_limit, timestamptz) is
    'How many messages the rate of a queue lets through now.';
