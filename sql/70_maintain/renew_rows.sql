-- A dump that was restored into a younger cluster brings transaction ids from the future, which
-- would count as new for ever. Gives such rows the id of this transaction, a bounded number;
-- returns whether more may be left.
create or replace function pgq._renew_rows(queue pgq.queue) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next xid8 := pg_snapshot_xmax(pg_current_snapshot());
    v_count int;
begin
    if not exists (select from pgq.ready r
                   where r.queue_id = queue.queue_id and r.xid > v_next offset 0)
    then
        return false;
    end if;
    v_next := pg_current_xact_id();
    update pgq.lane l set idle = '0' where l.queue_id = queue.queue_id and l.idle > v_next;
    update pgq.queue q set unlaned_xid = null
    where q.queue_id = queue.queue_id and q.unlaned_xid > v_next;
    with gone as (
        delete from pgq.ready d
        where d.ctid = any (array(
            select r.ctid from pgq.ready r
            where r.queue_id = queue.queue_id and r.xid > v_next
            limit pgq._limit('maintain_messages') for update skip locked))
        returning d.*
    ), added as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select g.queue_id, g.lane_id, g.rank, g.attempt, g.size, v_next, g.expires_at, g.grouped,
               g.suspect, g.hash, g.unmatched_by, g.failures, g.ids
        from gone g
    )
    select count(*)::int into v_count from gone;
    return v_count >= pgq._limit('maintain_messages');
end
$$;
comment on function pgq._renew_rows(pgq.queue) is
    'Gives rows with transaction ids from the future the id of this transaction.';
