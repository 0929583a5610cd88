-- Ends a few expired messages of a queue. Returns how many if this may have made others ready: only
-- the end of a group's head does that. The first claim of a session leaves most of them to later
-- claims and to maintain(): planning the statements takes longer than skipping the rows.
create or replace function pgq._expire_some(queue pgq.queue, first boolean, now timestamptz)
returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_grouped boolean := exists (
        select from pgq.group_head h where h.queue_id = queue.queue_id);
    v_most constant int := pgq._limit('upkeep_messages') / 40;
    v_moved int;
begin
    if first and not v_grouped
       and v_most < (
           select count(*) from (
               select from pgq.ready r where r.queue_id = queue.queue_id and r.expires_at <= now
               limit v_most + 1) x)
    then
        return 0;
    end if;
    v_moved := pgq._expire_rows(queue, pgq._limit('upkeep_rows'), v_most, now);
    return case when v_grouped then v_moved else 0 end;
end
$$;
comment on function pgq._expire_some(pgq.queue, boolean, timestamptz) is
    'Ends a few expired messages of a queue.';
