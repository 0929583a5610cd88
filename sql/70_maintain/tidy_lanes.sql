-- Removes lanes that are no longer used, and gives lanes to rows from before a queue had them.
--
-- A lane must not go while a publisher that has looked it up is still to insert its row. So it is
-- first hidden from publishers; a later call notes its own transaction (_mark_lanes), and a call
-- after all older ones have ended removes the lane, unless one of them did use it.
create or replace function pgq._tidy_lanes(queue pgq.queue) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row pgq.ready;
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

    if queue.unlaned_rows and queue.lane_keys is not null then
        for v_row in
            delete from pgq.ready d
            where d.ctid = any (array(
                select r.ctid from pgq.ready r
                where r.queue_id = queue.queue_id and r.lane_id is null
                order by r.rank limit 1000 for update skip locked))
            returning d.*
        loop
            perform pgq._enqueue(
                queue, v_row.ids, v_row.attempt, v_row.failures, v_row.grouped,
                back => (v_row.rank >> 49) & 1 = 0);
            v_done := v_done + 1;
        end loop;
        if v_done = 0 then
            -- Nobody is left who could add one, if the queue is as it was when that was noted.
            update pgq.queue q set unlaned_rows = false, unlaned_xid = null
            where q.ctid = any (array(
                select p.ctid from pgq.queue p
                where p.queue_id = queue.queue_id
                  and p.unlaned_xid <= pg_snapshot_xmin(pg_current_snapshot())
                  and not exists (select from pgq.ready r
                                  where r.queue_id = p.queue_id and r.lane_id is null)
                for update skip locked));
        end if;
    end if;
end
$$;
comment on function pgq._tidy_lanes(pgq.queue) is
    'Removes lanes that are no longer used, and gives lanes to rows that have none.';
revoke all on function pgq._tidy_lanes(pgq.queue) from public;
