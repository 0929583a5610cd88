-- Fast path: the row at the head holds more than n messages. Batches that are claimed in smaller
-- batches make such heads. One statement takes the first n of them, puts the rest back and writes
-- the lease. Nothing changes, and nothing is returned, if the head is of another kind, or if there
-- may be late rows before it. By this path a claim of 10 out of a row of 100 costs half as many
-- instructions.
create or replace function pgq._take_part(
    queue_id int, low bigint, high bigint, seen pg_snapshot, n int, journal boolean,
    now timestamptz, until timestamptz, flow int default null,
    permits int8multirange default null
) returns pgq._fast_lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease pgq._fast_lease;
begin
    with taken as (
        delete from pgq.ready r
        where r.ctid = (
                select h.ctid from pgq.ready h
                where h.queue_id = _take_part.queue_id and h.rank >= low and h.rank <= high
                order by h.rank limit 1 for update skip locked)
          and r.size >= n
          and (r.expires_at is null or r.expires_at > now)
          and not exists (  -- found by xid: the ORDER BY leaves no other index
              select from pgq.ready k
              where k.queue_id = _take_part.queue_id
                and k.xid >= pg_snapshot_xmin(seen) and k.rank + 0 < low
                order by k.xid offset 0)
        returning r.lane_id, r.rank, r.attempt, r.size, r.expires_at, r.grouped, r.suspect,
                  r.hash, r.unmatched_by, r.failures, r.ids, pgq._first_ids(r.ids, n) as took
    ), rest as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select _take_part.queue_id, t.lane_id,
               pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
               t.size - n, pg_current_xact_id(), t.expires_at, t.grouped, t.suspect, t.hash,
               t.unmatched_by, t.failures, t.ids - t.took
        from taken t
        where t.size > n
    )
    insert into pgq.lease as l (
        lease_id, claimed_at, until, queue_id, part, attempt, size, grouped, journal, holder,
        client, key, failures, ids, flow, permits)
    select pgq._row_token(now, _take_part.until), now, _take_part.until,
           _take_part.queue_id, 0, t.attempt + 1, n, t.grouped, _take_part.journal,
           nullif(current_setting('application_name'), ''), inet_client_addr(), null, t.failures,
           t.took, _take_part.flow, _take_part.permits
    from taken t
    returning l.lease_id, l.size, l.attempt, l.ids into v_lease;
    -- A claim that has skipped the row meanwhile may have gone to sleep.
    if v_lease.size > 0 then
        if exists (select from pgq.waiter) then
            perform pgq._wake(_take_part.queue_id);
        end if;
    end if;
    return v_lease;
end
$$;
comment on function pgq._take_part(
    int, bigint, bigint, pg_snapshot, int, boolean, timestamptz, timestamptz, int,
    int8multirange) is
    'Takes the first messages of the row at the head.';
