-- How many permits and tokens a shard had left when the permits in use were counted; null: it is
-- not limited by them.
create or replace function pgq._shard_room(
    queue_id int, limits pgq.queue_limit, shards int, shard int, used int8multirange,
    now timestamptz
) returns int[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array[
        case when limits.max_leased is not null then
            pgq._set_size(pgq._shard_permits(limits, shards, shard) - used) end,
        case when limits.step is not null then pgq._tokens(
            pgq._full_at(queue_id, pgq._shard_lane(shard)), limits.step * shards,
            pgq._shard_burst(pgq._burst(limits.rate, limits.burst), shards, shard), now) end];
end
$$;
comment on function pgq._shard_room(
    int, pgq.queue_limit, int, int, int8multirange, timestamptz) is
    'How many permits and tokens a shard had left.';
