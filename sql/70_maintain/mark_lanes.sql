-- Records which transactions may still use what garbage collection is to remove: lanes that an
-- earlier call has hidden, and rows without a lane in a queue that now has lane keys.
--
-- A publisher gets its transaction id before it searches for a lane. So a publisher that does not
-- see the change yet has an older id than this transaction, provided that this one gets it here.
-- (The xmax of a snapshot would not do: it follows the latest id that has ended, and transactions
-- with larger ids may run.)
create or replace function pgq._mark_lanes() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        return;
    end if;
    -- Skips a queue that is being changed: the change would be younger than the id.
    update pgq.queue q set unlaned_xid = pg_current_xact_id()
    where q.ctid = any (array(
        select p.ctid from pgq.queue p
        where p.unlaned_rows and p.lane_keys is not null and p.unlaned_xid is null
        for update skip locked));
    update pgq.lane l set idle = pg_current_xact_id()
    where l.ctid = any (array(
        select k.ctid from pgq.lane k where k.idle = '0' for update skip locked));
end
$$;
comment on function pgq._mark_lanes() is
    'Records which transactions may still use lanes that are to be removed.';
