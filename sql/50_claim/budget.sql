-- What the limits of a whole queue allow a claim of n messages to take.
--
-- A claim has to know what others have taken and not committed yet, and must not wait for their
-- commits: then the claims of a queue would be as slow as the disk. So a limit is cut into up to 16
-- shards, each with a part of the permits and of the tokens, and a claim locks as many shards as it
-- needs. No open transaction has taken from a shard that the claim has locked. The claim waits for
-- a shard only if every shard that has something left is locked.
create or replace function pgq._budget(
    queue_id int, limits pgq.queue_limit, n int, first bigint, now timestamptz
) returns pgq._budget
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := pgq._shards(limits);
    v_burst int := pgq._burst(limits.rate, limits.burst);
    v_start int := floor(random() * v_count)::int;
    v_used int8multirange;
    v_leased int;
    v_busy int;
    v_shard int;
    v_tokens int := 0;
    v_room int[];
    v_sums int[];
    v_budget pgq._budget;
begin
    v_budget.shards := '{}';
    for v_round in 1 .. 4 loop
        -- The first round locks one shard that nobody has locked, the second other shards that
        -- have something left, as far as that is known; later rounds wait.
        v_busy := null;
        v_sums := array[case when v_budget.permits is not null then
                            pgq._set_size(v_budget.permits) end, v_tokens];
        for i in 0 .. v_count - 1 loop
            v_shard := (v_start + i) % v_count;
            continue when v_shard = any (v_budget.shards);
            if v_round > 1 then
                v_room := pgq._shard_room(queue_id, limits, v_count, v_shard, v_used, now);
                continue when not coalesce(v_sums[1] < n and v_room[1] > 0, false)
                    and not coalesce(v_sums[2] < n and v_room[2] > 0, false);
            end if;
            perform from pgq.flow f
            where f.queue_id = _budget.queue_id and f.lane = pgq._shard_lane(v_shard)
              and f.full_at = 'epoch'
            for update skip locked;
            if found then
                v_budget.shards := v_budget.shards || v_shard;
                exit when v_round = 1;
                v_sums := array[v_sums[1] + v_room[1], v_sums[2] + v_room[2]];
                exit when least(v_sums[1], v_sums[2]) >= n;
            else
                v_busy := v_shard;
            end if;
        end loop;
        -- A new statement sees what was committed before the locks were granted.
        if limits.max_leased is not null then
            select coalesce(range_agg(case when upper(l.permits) - lower(l.permits) = l.size
                                      then l.permits
                                      else pgq._first_ids(l.permits, l.size) end), '{}'),
                   coalesce(sum(l.size), 0)::int
            into v_used, v_leased
            from pgq.lease l
            where l.queue_id = _budget.queue_id and l.flow is not null
              and l.lease_id >= coalesce(first, 0);
        end if;
        v_budget.n := n;
        v_budget.permits := case when limits.max_leased is not null then '{}'::int8multirange end;
        v_budget.full_at := '{}';
        v_budget.tokens := '{}';
        v_tokens := 0;
        for i in 1 .. cardinality(v_budget.shards) loop
            v_shard := v_budget.shards[i];
            if limits.max_leased is not null then
                v_budget.permits := v_budget.permits
                    + (pgq._shard_permits(limits, v_count, v_shard) - v_used);
            end if;
            if limits.step is not null then
                v_budget.full_at[i] := (
                    select f.full_at from pgq.flow f
                    where f.queue_id = _budget.queue_id and f.lane = pgq._shard_lane(v_shard)
                    order by f.full_at desc limit 1);
                v_budget.tokens[i] := pgq._tokens(
                    v_budget.full_at[i], limits.step * v_count,
                    pgq._shard_burst(v_burst, v_count, v_shard), now);
                v_tokens := v_tokens + v_budget.tokens[i];
            end if;
        end loop;
        if limits.max_leased is not null then
            v_budget.n := least(
                v_budget.n, pgq._set_size(v_budget.permits), limits.max_leased - v_leased);
        end if;
        if limits.step is not null then
            v_budget.n := least(v_budget.n, v_tokens);
        end if;
        exit when v_budget.n >= n or v_round > 1 and (v_budget.n > 0 or v_busy is null)
            or v_round > 2 and not pgq._lock_flow(queue_id, pgq._shard_lane(v_busy));
    end loop;
    v_budget.n := case when v_budget.shards = '{}' then 0 else greatest(v_budget.n, 0) end;
    return v_budget;
end
$$;
comment on function pgq._budget(int, pgq.queue_limit, int, bigint, timestamptz) is
    'What the limits of a queue allow a claim to take.';
