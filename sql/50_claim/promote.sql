-- Makes ready what has become due, a bounded amount of it; returns how many messages.
create or replace function pgq._promote(queue pgq.queue, most int, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
declare
    v_row record;
    v_part int8multirange;
    v_count int := 0;
begin
    for v_row in
        select s.ctid, s.* from pgq.scheduled s
        where s.queue_id = queue.queue_id and s.due_at <= now
        order by s.due_at limit 100 for update skip locked
    loop
        exit when v_count >= most;
        delete from pgq.scheduled s where s.ctid = v_row.ctid;
        v_part := v_row.ids;
        if v_row.size > most then
            v_part := pgq._first_ids(v_row.ids, most);
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_row.queue_id, v_row.due_at, v_row.attempt, v_row.size - most,
                    v_row.grouped, v_row.failures, v_row.ids - v_part);
        end if;
        perform pgq._enqueue(queue, v_part, v_row.attempt, v_row.failures, v_row.grouped);
        v_count := v_count + least(v_row.size, most);
    end loop;
    return v_count;
end
$$;
comment on function pgq._promote(pgq.queue, int, timestamptz) is 'Makes ready what has become due.';
revoke all on function pgq._promote(pgq.queue, int, timestamptz) from public;
