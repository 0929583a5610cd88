-- Advances groups whose head ended while a publisher held them; returns how many.
create or replace function pgq._move_on(queue pgq.queue, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stall record;
    v_next record;
    v_count int := 0;
begin
    for v_stall in
        select s.ctid, s.group_key, s.message_id from pgq.group_stall s
        where s.queue_id = queue.queue_id order by s.group_key limit 100 for update skip locked
    loop
        v_next := pgq._advance_group(queue.queue_id, v_stall.group_key, v_stall.message_id);
        continue when v_next.held;
        delete from pgq.group_stall s where s.ctid = v_stall.ctid;
        v_count := v_count + 1;
        if v_next.next_id is not null then
            perform pgq._admit_heads(
                queue, array[v_next.next_id], v_next.failures, now, v_next.due_at);
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq._move_on(pgq.queue, timestamptz) is
    'Advances groups whose head ended while a publisher held them.';
