-- Makes due messages ready, a bounded number; returns how many.
create or replace function pgq._promote(
    queue pgq.queue, due timestamptz, "rows" int, messages int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_part int8multirange;
    v_count int := 0;
begin
    -- Rows with the same attempt and failures are joined: delayed messages have no failures.
    for v_set in
        with gone as (
            delete from pgq.scheduled d
            where d.ctid = any (array(
                select s.ctid from pgq.scheduled s
                where s.queue_id = queue.queue_id and s.due_at <= now
                  and s.due_at >= coalesce(due, '-infinity')
                order by s.due_at limit "rows" for update skip locked))
            returning d.*
        )
        select g.attempt, g.failures, g.grouped, min(g.due_at) as due_at, range_agg(g.ids) as ids,
               sum(g.size)::int as size
        from gone g group by 1, 2, 3 order by 4
    loop
        v_part := pgq._first_ids(v_set.ids, greatest(messages - v_count, 0));
        if v_part <> '{}' then
            perform pgq._enqueue(queue, v_part, v_set.attempt, v_set.failures, v_set.grouped);
        end if;
        if v_part <> v_set.ids then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (queue.queue_id, v_set.due_at, v_set.attempt,
                    v_set.size - pgq._set_size(v_part), v_set.grouped, v_set.failures,
                    v_set.ids - v_part);
        end if;
        v_count := v_count + pgq._set_size(v_part);
    end loop;
    return v_count;
end
$$;
comment on function pgq._promote(pgq.queue, timestamptz, int, int, timestamptz) is
    'Makes due messages ready.';
