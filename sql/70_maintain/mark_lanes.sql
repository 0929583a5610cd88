-- Notes which transactions may still use what is to be tidied: lanes that a call before this has
-- hidden, and the rows without lanes of a queue that has got some.
--
-- Whoever does not know of that yet has an older transaction id than this one, because a publisher
-- gets its id before it looks for a lane. That is only so while this transaction has no id yet.
-- (The xmax of a snapshot would not do: it is behind the last that has ended, and younger ones may
-- run.)
create or replace function pgq._mark_lanes() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        return;
    end if;
    -- Not if the queue is changing at this moment: the change would be younger than the id.
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
    'Notes which transactions may still use what is to be tidied.';
