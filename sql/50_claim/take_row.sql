-- Fast path: the row at the head holds just what is wanted. One statement deletes it and writes the
-- lease. Nothing changes, and nothing is returned, if the head is of another kind, or if there may
-- be late rows before it. With _take_part, which can put a rest back, it would cost a sixth more.
create or replace function pgq._take_row(
    queue_id int, low bigint, high bigint, seen pg_snapshot, n int, journal boolean,
    now timestamptz, until timestamptz
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
                where h.queue_id = _take_row.queue_id and h.rank >= low and h.rank <= high
                order by h.rank limit 1 for update skip locked)
          and (r.size = n or r.suspect and r.size < n)
          and (r.expires_at is null or r.expires_at > now)
          and not exists (  -- found by xid: the ORDER BY leaves no other index
              select from pgq.ready k
              where k.queue_id = _take_row.queue_id
                and k.xid >= pg_snapshot_xmin(seen) and k.rank + 0 < low
                order by k.xid offset 0)
        returning r.attempt, r.size, r.grouped, r.failures, r.ids
    )
    insert into pgq.lease as l (
        lease_id, claimed_at, until, queue_id, part, attempt, size, grouped, journal, holder,
        client, key, failures, ids)
    select pgq._row_token(now, _take_row.until), now, _take_row.until,
           _take_row.queue_id, 0, t.attempt + 1, t.size, t.grouped, _take_row.journal,
           nullif(current_setting('application_name'), ''), inet_client_addr(), null, t.failures,
           t.ids
    from taken t
    returning l.lease_id, l.size, l.attempt, l.ids into v_lease;
    return v_lease;
end
$$;
comment on function pgq._take_row(
    int, bigint, bigint, pg_snapshot, int, boolean, timestamptz, timestamptz) is
    'Takes the row at the head.';
