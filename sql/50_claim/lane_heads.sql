-- The next lanes that have something to claim and are not known to be at their limits, in the order
-- of their turns: from the one after the last turn, and around. Each with its first row, or with
-- the first that holds a match, if there is a filter to be tested. Locks the lanes if they have
-- limits: full_at is then 1970, and null for lanes that others have locked or that are new.
create or replace function pgq._lane_heads(
    queue pgq.queue, claim pgq._claim, limits pgq.queue_limit, kept int[], first bigint, turn int,
    filter pgq.filter default null, low pgq._low default null
) returns pgq._head[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_burst int := pgq._burst(limits.lane_rate, limits.lane_burst);
    v_locked boolean := num_nonnulls(limits.lane_max_leased, limits.lane_step) > 0;
begin
    return array(
        select row(n.lane_id, n.lane, n.place, n.size, n.suspect, k.full_at, null)::pgq._head
        from (
            select c.lane_id, c.lane, h.place, h.size, h.suspect
            from (
                (select l.lane_id, pgq._lane_flow(l.label) as lane from pgq.lane l
                 where l.queue_id = queue.queue_id and l.lane_id > turn order by l.lane_id)
                union all
                (select l.lane_id, pgq._lane_flow(l.label) from pgq.lane l
                 where l.queue_id = queue.queue_id and l.lane_id <= turn order by l.lane_id)
            ) c
            cross join lateral (
                select r.ctid as place, r.size, r.suspect from pgq.ready r
                where r.lane_id = c.lane_id
                  and (r.expires_at is null or r.expires_at > claim.claimed_at)
                  and (filter.path is null
                       or r.unmatched_by is distinct from coalesce(filter.filter_id, 0)
                       -- Not rows that the filter has tested: see pgq._cursor_get.
                       and (low.rank is null or r.rank >= low.rank or r.xid = low.own
                            or not pg_visible_in_snapshot(r.xid, low.seen))
                       and pgq._any_matches(filter, r.ids, r.attempt + 1, claim.claimed_at))
                order by r.rank limit 1
            ) h
            where (kept is null or c.lane_id = any (kept))
              and (limits.lane_max_leased is null or (
                  select coalesce(sum(l.size), 0) from pgq.lease l
                  where l.queue_id = queue.queue_id and l.flow = c.lane
                    and l.lease_id >= coalesce(first, 0)) < limits.lane_max_leased)
              and (limits.lane_step is null or coalesce(pgq._tokens((
                  select f.full_at from pgq.flow f
                  where f.queue_id = queue.queue_id and f.lane = c.lane
                  order by f.full_at desc limit 1), limits.lane_step, v_burst, claim.claimed_at), 1)
                  > 0)
            -- As many lanes as give n messages in equal parts.
            limit ceil(claim.n::float8 / greatest(1, claim.n / pgq._limit('turns')))::int
        ) n
        left join lateral (
            select f.full_at from pgq.flow f
            where v_locked and f.queue_id = queue.queue_id and f.lane = n.lane
              and f.full_at = 'epoch'
            for update skip locked) k on true);
end
$$;
comment on function pgq._lane_heads(
    pgq.queue, pgq._claim, pgq.queue_limit, int[], bigint, int, pgq.filter, pgq._low) is
    'The next lanes that have messages to claim.';
