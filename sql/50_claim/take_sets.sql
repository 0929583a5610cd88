-- Takes the given ids out of ready rows, where a filter has found them. One statement locks the
-- rows, deletes them, puts the other ids back and writes the lease. It changes nothing, and returns
-- no size, if the messages cannot share a lease row: they differ in priority, attempt or failures,
-- or are suspects. _take_rows does all that, and costs a claim of 100 messages 15 % more.
create or replace function pgq._take_sets(
    claim pgq._claim, places tid[], sets int8multirange[], counts int[], tested_by bigint,
    partly bigint
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_taken pgq._taken;
    v_left boolean;
begin
    with locked as materialized (
        select r.ctid as place, r.*, sets[array_position(places, r.ctid)] as took,
               counts[array_position(places, r.ctid)] as count
        from pgq.ready r
        where r.ctid = any (places) and r.queue_id + 0 = claim.queue_id  -- + 0: not by its index
          and r.ids @> sets[array_position(places, r.ctid)]  -- else the place has got another row
          and (r.expires_at is null or r.expires_at > claim.claimed_at)
        for update skip locked
    ), alike as materialized (
        select array_agg(l.place) as places, range_agg(l.took) as ids, sum(l.count)::int as size,
               max(l.attempt) as attempt, bool_or(l.grouped) as grouped,
               bool_or(l.size > l.count) as rest
        from locked l
        having bool_and(l.failures is null and not l.suspect)
           and max(l.attempt) = min(l.attempt) and bool_or(l.grouped) = bool_and(l.grouped)
           and pgq._rank_class(max(l.rank)) = pgq._rank_class(min(l.rank))
    ), gone as (
        delete from pgq.ready r where r.ctid = any ((select a.places from alike a)::tid[])
    ), rest as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select l.queue_id, l.lane_id,
               pgq._rank_of(pgq._rank_class(l.rank), lower(l.ids - l.took)), l.attempt,
               l.size - l.count, pg_current_xact_id(), l.expires_at, l.grouped,
               false, l.hash,
               -- The filter has tested all of it, unless the scan has ended in this row.
               case when l.rank is distinct from partly then coalesce(tested_by, l.unmatched_by)
               else l.unmatched_by end, null, l.ids - l.took
        from locked l
        where l.size > l.count and exists (select from alike)
    )
    insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                grouped, journal, holder, client, key, failures, ids)
    select claim.lease_id, claim.claimed_at, claim.until, claim.queue_id,
           case when a.size = claim.n and claim.part = 1 then 0 else claim.part end,
           a.attempt + 1, a.size, a.grouped, claim.journal,
           nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key, null,
           a.ids
    from alike a
    returning l.lease_id, l.size, (select a.rest from alike a)
    into v_taken.lease_id, v_taken.size, v_left;
    -- A claim that has skipped the row meanwhile may have gone to sleep.
    if v_left then
        if exists (select from pgq.waiter) then
            perform pgq._wake(claim.queue_id);
        end if;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_sets(pgq._claim, tid[], int8multirange[], int[], bigint, bigint) is
    'Takes the messages that a filter has found.';
