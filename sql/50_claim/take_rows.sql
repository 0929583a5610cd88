-- Takes up to n messages out of the given ready rows, or only those of the given sets, and writes
-- the lease; the rest of each row goes back at once. Rows that another transaction has locked are
-- skipped. A row of suspects is taken alone. Returns how many were taken, the number of the next
-- part of the lease, and whether suspects were found: the claim takes no more then.
create or replace function pgq._take_rows(
    claim pgq._claim, places tid[], sets int8multirange[] default null,
    tested_by bigint default null, partly bigint default null,
    out size int, out part int, out suspect boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_left int;
    -- Permits that earlier calls for the same claim have used.
    v_ahead bigint := case when claim.permits is not null then
        (pgq._set_size(claim.permits) - claim.n)::bigint end;
begin
    with locked as materialized (
        select r.ctid as place, r.*, coalesce(sets[array_position(places, r.ctid)] * r.ids, r.ids)
                   as wanted
        from pgq.ready r
        where r.ctid = any (places) and r.queue_id + 0 = claim.queue_id  -- + 0: not by its index
          and (r.expires_at is null or r.expires_at > claim.claimed_at)
        for update skip locked
    ), counted as (
        select l.*, s.count, sum(s.count) over w - s.count as ahead, row_number() over w as i,
               bool_or(l.suspect) over w as suspected,
               -- Thousands of ids with gaps become several lease rows of about 8 kB: to end one
               -- message rewrites its row. Ids without gaps take next to no space.
               sum(greatest(pg_column_size(l.wanted) - 64, 0)) over w / 8192 as chunk
        from locked l
        cross join lateral (
            select case when sets is null or l.wanted = l.ids then l.size
                   else pgq._set_size(l.wanted) end as count) s
        window w as (order by l.rank rows unbounded preceding)
    ), taken as materialized (
        select c.*, case when c.ahead + c.count <= claim.n then c.wanted
                    else pgq._first_ids(c.wanted, claim.n - c.ahead) end as took
        from counted c
        where c.ahead < claim.n and c.count > 0 and (c.i = 1 or not c.suspected)
    ), gone as (
        delete from pgq.ready r where r.ctid = any (array(select t.place from taken t))
    ), rest as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select t.queue_id, t.lane_id,
               pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
               t.size - least(t.count, claim.n - t.ahead), pg_current_xact_id(), t.expires_at,
               t.grouped, t.suspect, t.hash,
               -- The filter has tested all of it, unless the scan has ended in this row.
               case when t.ahead + t.count <= claim.n and tested_by is not null
                         and t.rank is distinct from partly then tested_by
               else t.unmatched_by end,
               t.failures, t.ids - t.took
        from taken t
        where t.ids <> t.took
        returning 1
    ), leased as (
        insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                    grouped, journal, holder, client, key, failures, ids, flow,
                                    permits)
        select claim.lease_id, claim.claimed_at, claim.until, claim.queue_id,
               case when count(*) over () = 1 then claim.part
               else greatest(claim.part, 1) + row_number() over (order by p.rank) - 1 end,
               p.attempt + 1, p.size, p.grouped, claim.journal,
               nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key,
               p.failures, p.ids, p.flow,
               -- Only the first permits count, as many as there are messages. No more than those
               -- are stored, so that other claims need not cut the set.
               case when claim.permits is null or v_ahead = 0 and p.size = claim.n
                   then claim.permits
               when v_ahead + sum(p.size) over w = p.size
                   then pgq._first_ids(claim.permits, p.size)
               else pgq._first_ids(claim.permits - pgq._first_ids(
                   claim.permits, v_ahead + sum(p.size) over w - p.size), p.size) end
        from (
            select t.attempt, t.failures, t.grouped, min(t.rank) as rank, range_agg(t.took) as ids,
                   sum(least(t.count, claim.n - t.ahead))::int as size, f.flow
            from taken t
            cross join lateral (
                select case when claim.flow = 1 then coalesce((
                           select pgq._lane_flow(k.label) from pgq.lane k
                           where k.lane_id = t.lane_id), 1) else claim.flow end as flow) f
            group by pgq._rank_class(t.rank), t.attempt, t.failures, t.grouped, f.flow, t.chunk
        ) p
        window w as (order by p.rank rows unbounded preceding)
        returning l.size, l.part
    )
    select coalesce(sum(l.size), 0)::int, coalesce(max(l.part) + 1, claim.part),
           (select count(*)::int from rest),
           coalesce((select bool_or(c.suspected) from counted c), false)
    into size, part, v_left, suspect
    from leased l;
    -- A claim that has skipped the row meanwhile may have gone to sleep.
    if v_left > 0 then
        if exists (select from pgq.waiter) then
            perform pgq._wake(claim.queue_id);
        end if;
    end if;
end
$$;
comment on function pgq._take_rows(pgq._claim, tid[], int8multirange[], bigint, bigint) is
    'Takes messages out of ready rows and writes their lease.';
