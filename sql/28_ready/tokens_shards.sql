-- How the limits of a queue are cut into shards, which claims lock. There are fewer than 16 if the
-- limit is so small that a shard would have nothing.
create or replace function pgq._shards(limits pgq.queue_limit) returns int
language sql immutable parallel safe
return least(16, limits.max_leased, case when limits.step is not null then
    greatest(1, pgq._burst(limits.rate, limits.burst) / 10) end);
comment on function pgq._shards(pgq.queue_limit) is 'The number of shards of a limit.';

create or replace function pgq._shard_lane(shard int) returns bigint
language sql immutable parallel safe
return 16 + shard;
comment on function pgq._shard_lane(int) is 'The column lane of pgq.flow for a shard.';

create or replace function pgq._shard_permits(limits pgq.queue_limit, shards int, shard int)
returns int8multirange
language sql immutable parallel safe
return int8multirange(int8range(limits.max_leased::bigint * shard / shards,
                                limits.max_leased::bigint * (shard + 1) / shards));
comment on function pgq._shard_permits(pgq.queue_limit, int, int) is 'The permits of a shard.';

create or replace function pgq._shard_burst(burst int, shards int, shard int) returns int
language sql immutable parallel safe
return burst::bigint * (shard + 1) / shards - burst::bigint * shard / shards;
comment on function pgq._shard_burst(int, int, int) is 'The size of a shard''s token bucket.';
