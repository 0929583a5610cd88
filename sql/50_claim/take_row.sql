-- Fast path: the row at the head holds just what is wanted. One statement deletes it, writes the
-- lease and reads the messages. Nothing changes, and nothing is returned, if the head is of another
-- kind, or if there may be late rows before it. By _take_part, which can put a rest back, such a
-- claim costs a sixth more.
create or replace function pgq._take_row(
    queue pgq.queue, low pgq._low, n int, lease_id bigint, now timestamptz, until timestamptz
) returns setof pgq.claimed
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with taken as (
            delete from pgq.ready r
            where r.ctid = (
                    select h.ctid from pgq.ready h
                    where h.queue_id = queue.queue_id and h.rank >= low.rank
                    order by h.rank limit 1 for update skip locked)
              and (r.size = n or r.suspect and r.size < n)
              and (r.expires_at is null or r.expires_at > now)
              and not exists (  -- by transaction: the order leaves no other index
                  select from pgq.ready k
                  where k.queue_id = queue.queue_id
                    and k.xid >= pg_snapshot_xmin(low.seen) and k.rank + 0 < low.rank
                    order by k.xid offset 0)
            returning r.attempt, r.size, r.grouped, r.failures, r.ids
        ), leased as (
            -- All columns in their order: skips a projection node.
            insert into pgq.lease as l (
                lease_id, claimed_at, until, queue_id, part, attempt, size, grouped, journal,
                holder, client, key, failures, ids)
            select _take_row.lease_id, now, _take_row.until, queue.queue_id, 0, t.attempt + 1,
                   t.size, t.grouped, queue.journal = 'all',
                   nullif(current_setting('application_name'), ''), inet_client_addr(), null,
                   t.failures, t.ids
            from taken t
            returning l.attempt, l.ids
        )
        select m.* from leased l
        cross join lateral pgq._read_ids(_take_row.lease_id, l.attempt, _take_row.until, l.ids) m;
end
$$;
comment on function pgq._take_row(
    pgq.queue, pgq._low, int, bigint, timestamptz, timestamptz) is
    'Takes the row at the head.';
