-- Inserts the row that claims of a lane lock, and so locks it. False if the row exists, or if
-- another claim is inserting it at this moment.
create or replace function pgq._new_lane(queue_id int, lane bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1ms'
as $$
begin
    if exists (select from pgq.flow f
               where f.queue_id = _new_lane.queue_id and f.lane = _new_lane.lane
                 and f.full_at = 'epoch')
    then
        return false;
    end if;
    insert into pgq.flow (queue_id, lane, full_at)
    values (_new_lane.queue_id, _new_lane.lane, 'epoch')
    on conflict on constraint flow_pkey do nothing;
    return found;
exception
    when lock_not_available then
        return false;
end
$$;
comment on function pgq._new_lane(int, bigint) is 'Inserts the row that claims of a lane lock.';
