-- Removes lanes that are no longer used, and sorts a bounded number of messages into lanes: those
-- of rows without a lane, from before the queue had lanes, and of lanes of former keys. Returns
-- whether more may be left.
--
-- A lane must not be deleted while a publisher that has found it is still to insert its row. So a
-- call first hides the lane from publishers, a later call records its transaction id (_mark_lanes),
-- and a call after all older transactions have ended deletes the lane, unless one of them used it.
create or replace function pgq._gc_lanes(queue pgq.queue) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row pgq.ready;
    v_stale int[];
    v_rank bigint;
    v_done int := 0;
begin
    delete from pgq.lane l
    where l.queue_id = queue.queue_id and l.idle > '0'
      and l.idle <= pg_snapshot_xmin(pg_current_snapshot())
      and not exists (select from pgq.ready r where r.lane_id = l.lane_id);
    update pgq.lane l set idle = case when l.idle is null then xid8 '0' end
    where l.queue_id = queue.queue_id
      and (l.idle is null) <> exists (select from pgq.ready r where r.lane_id = l.lane_id);
    if queue.lanes_full
       and (select count(*) < 900 from pgq.lane l where l.queue_id = queue.queue_id)
    then
        update pgq.queue q set lanes_full = false
        where q.ctid = any (array(
            select p.ctid from pgq.queue p
            where p.queue_id = queue.queue_id for update skip locked));
    end if;

    if queue.lane_keys is not null then
        v_stale := array(
            select l.lane_id from pgq.lane l
            where l.queue_id = queue.queue_id and l.lane_keys <> queue.lane_keys);
        for v_row in
            delete from pgq.ready d
            where d.ctid = any (array(
                select r.ctid from pgq.ready r
                where r.ctid = any (pgq._unsorted_rows(queue, v_stale)) for update skip locked))
            returning d.*
        loop
            perform pgq._enqueue(
                queue, v_row.ids, v_row.attempt, v_row.failures, v_row.grouped,
                back => pgq._rank_is_back(v_row.rank), suspect => v_row.suspect);
            v_done := v_done + 1;
            if v_row.lane_id is null then
                v_rank := greatest(v_rank, v_row.rank);
            end if;
        end loop;
    end if;
    if queue.unlaned_rows and v_rank is null then
        -- All transactions before unlaned_xid have ended: nobody can add a row without a lane.
        update pgq.queue q set unlaned_rows = false, unlaned_xid = null, unlaned_rank = null
        where queue.lane_keys is not null and q.ctid = any (array(
            select p.ctid from pgq.queue p
            where p.queue_id = queue.queue_id
              and p.unlaned_xid <= pg_snapshot_xmin(pg_current_snapshot())
              and not exists (select from pgq.ready r
                              where r.queue_id = p.queue_id and r.lane_id is null)
            for update skip locked));
    end if;
    if queue.unlaned_rank is distinct from v_rank then
        update pgq.queue q set unlaned_rank = v_rank
        where q.ctid = any (array(
            select p.ctid from pgq.queue p
            where p.queue_id = queue.queue_id and p.unlaned_rows for update skip locked));
    end if;
    return v_done > 0;
end
$$;
comment on function pgq._gc_lanes(pgq.queue) is
    'Removes lanes that are no longer used, and sorts messages into lanes.';
