-- How many messages a claim takes from each of these lanes: equal parts of n, or what the limits of
-- the lane allow. Lanes with limits that _lane_heads could not lock are left out, except new ones.
-- Suspects are delivered alone, so a lane that begins with them is taken alone or not now.
create or replace function pgq._lane_quotas(
    queue_id int, claim pgq._claim, limits pgq.queue_limit, first bigint, heads pgq._head[]
) returns pgq._head[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_burst int := pgq._burst(limits.lane_rate, limits.lane_burst);
    v_locked boolean := num_nonnulls(limits.lane_max_leased, limits.lane_step) > 0;
    v_done bigint[] := '{}';
    v_head pgq._head;
    v_heads pgq._head[] := '{}';
    v_left int := claim.n;
    v_chance float8 := random();
    v_count int := cardinality(heads);
begin
    if v_locked then
        for i in 1 .. v_count loop
            if (heads[i]).full_at is null and pgq._new_lane(queue_id, (heads[i]).lane) then
                heads[i].full_at := 'epoch';
            end if;
        end loop;
        -- A new statement sees what was committed before the locks were granted.
        heads := array(
            select row(h.lane_id, h.lane, h.place, h.size, h.suspect, b.full_at, least(
                       limits.lane_max_leased - (
                           select coalesce(sum(l.size), 0)::int from pgq.lease l
                           where l.queue_id = _lane_quotas.queue_id and l.flow = h.lane
                             and l.lease_id >= coalesce(first, 0)),
                       case when limits.lane_step is not null then pgq._tokens(
                           b.full_at, limits.lane_step, v_burst, claim.claimed_at) end
                   ))::pgq._head
            from unnest(heads) with ordinality
                h (lane_id, lane, place, size, suspect, full_at, quota, i)
            cross join lateral (
                select case when limits.lane_step is not null then (
                           select f.full_at from pgq.flow f
                           where f.queue_id = _lane_quotas.queue_id and f.lane = h.lane
                           order by f.full_at desc limit 1) end as full_at) b
            where h.full_at is not null order by h.i);
        v_count := cardinality(heads);
    end if;
    for i in 1 .. v_count loop
        v_head := heads[i];
        exit when v_left < 1 or v_head.suspect and v_heads <> '{}';
        -- Equal parts; which lanes give one more is random, or it would always be the same lanes.
        v_head.quota := least(v_head.quota, v_left,
            (floor(claim.n::float8 * i / v_count + v_chance)
             - floor(claim.n::float8 * (i - 1) / v_count + v_chance))::int);
        -- The same lane may have been made twice.
        continue when v_head.quota < 1 or v_head.lane = any (v_done);
        v_heads := v_heads || v_head;
        v_done := v_done || v_head.lane;
        v_left := v_left - v_head.quota;
        exit when v_head.suspect;
    end loop;
    return v_heads;
end
$$;
comment on function pgq._lane_quotas(int, pgq._claim, pgq.queue_limit, bigint, pgq._head[]) is
    'How many messages a claim takes from each lane.';
