-- Makes heads of ordering groups ready, or schedules those that are still delayed: by their
-- deliver_at, or by a time that was set since (due_at).
create or replace function pgq._admit_heads(
    queue pgq.queue, ids bigint[], failures jsonb, now timestamptz,
    due_at timestamptz default null
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_count int := 0;
begin
    for v_set in
        select case when d.at > now then d.at end as due_at, count(*)::int as size,
               range_agg(int8range(m.id, m.id + 1)) as ids
        from unnest(_admit_heads.ids) i join pgq.message m on m.id = i
        cross join lateral (
            select coalesce(_admit_heads.due_at, nullif(m.deliver_at, 'infinity')) as at) d
        group by 1
    loop
        v_count := v_count + v_set.size;
        if v_set.due_at is not null then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (queue.queue_id, v_set.due_at, 0, v_set.size, true, failures, v_set.ids);
            perform pgq._wake(queue.queue_id);
        else
            perform pgq._enqueue(
                queue, v_set.ids, 0, failures, true, back => failures is not null);
        end if;
    end loop;
    if v_count < cardinality(_admit_heads.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._admit_heads(pgq.queue, bigint[], jsonb, timestamptz, timestamptz) is
    'Makes heads of ordering groups ready, or schedules those that are still delayed.';
