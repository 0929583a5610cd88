-- Fast path: the first row of each lane holds all messages that the claim takes from that lane. One
-- statement takes them and puts the rest back. Returns how many messages came from each lane: 0 if
-- its row is locked. By this path a claim of 10 from two lanes costs a fifth fewer instructions.
create or replace function pgq._take_firsts(claim pgq._claim, heads pgq._head[]) returns int[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row record;
    v_sizes int[] := array_fill(0, array[cardinality(heads)]);
    v_class bigint;
    v_lease pgq.lease;
    v_leases pgq.lease[] := '{}';
    v_last int := 0;
begin
    for v_row in
        with taken as (
            delete from pgq.ready r
            using (
                select h.i, h.lane, h.quota, f.place
                from unnest(heads) with ordinality
                    h (lane_id, lane, place, size, suspect, full_at, quota, i)
                cross join lateral (
                    select t.ctid as place from pgq.ready t
                    where t.lane_id = h.lane_id and not t.suspect
                      and (t.expires_at is null or t.expires_at > claim.claimed_at)
                    order by t.rank limit 1 for update skip locked) f
                offset 0
            ) p
            where r.ctid = p.place
            returning r.*, p.i, p.lane, least(r.size, p.quota) as count,
                      pgq._first_ids(r.ids, p.quota) as took
        ), rest as (
            insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                                   suspect, hash, unmatched_by, failures, ids)
            select t.queue_id, t.lane_id,
                   pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
                   t.size - t.count, pg_current_xact_id(), t.expires_at, t.grouped, t.suspect,
                   t.hash, t.unmatched_by, t.failures, t.ids - t.took
            from taken t
            where t.size > t.count
        )
        select t.i, t.count, pgq._rank_class(t.rank) as class, t.attempt, t.failures, t.grouped,
               t.took, t.lane
        from taken t
    loop
        v_sizes[v_row.i] := v_row.count;
        -- One lease row for all that are alike, unless lanes are counted.
        if v_last > 0 and claim.flow is distinct from 1 and v_row.class = v_class
           and v_row.attempt = v_lease.attempt and v_row.grouped = v_lease.grouped
           and v_row.failures is not distinct from v_lease.failures
        then
            v_lease.size := v_lease.size + v_row.count;
            v_lease.ids := v_lease.ids + v_row.took;
        else
            v_last := v_last + 1;
            v_class := v_row.class;
            v_lease.attempt := v_row.attempt;
            v_lease.size := v_row.count;
            v_lease.grouped := v_row.grouped;
            v_lease.failures := v_row.failures;
            v_lease.ids := v_row.took;
            v_lease.flow := case when claim.flow = 1 then v_row.lane else claim.flow end;
        end if;
        v_leases[v_last] := v_lease;
    end loop;
    for i in 1 .. v_last loop
        v_lease := v_leases[i];
        if claim.permits is not null then
            v_lease.permits := pgq._first_ids(claim.permits, v_lease.size);
            claim.permits := claim.permits - v_lease.permits;
        end if;
        insert into pgq.lease (lease_id, claimed_at, until, queue_id, part, attempt, size, grouped,
                               journal, holder, client, key, failures, ids, flow, permits)
        values (claim.lease_id, claim.claimed_at, claim.until, claim.queue_id,
                case when v_last > 1 then i else 0 end, v_lease.attempt + 1, v_lease.size,
                v_lease.grouped, claim.journal, nullif(current_setting('application_name'), ''),
                inet_client_addr(), claim.key, v_lease.failures, v_lease.ids, v_lease.flow,
                v_lease.permits);
    end loop;
    return v_sizes;
end
$$;
comment on function pgq._take_firsts(pgq._claim, pgq._head[]) is
    'Takes messages out of the first rows of lanes.';
