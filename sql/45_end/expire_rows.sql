-- Ends expired messages of a queue, a bounded number; returns how many.
create or replace function pgq._expire_rows(
    queue pgq.queue, "rows" int, messages int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_size int;
    v_count int := 0;
    v_since timestamptz := '-infinity';
begin
    -- In portions: the next message of an ordering group may have expired too. Each portion begins
    -- where the last one ended, because a scan still reads rows that this transaction has deleted.
    loop
        v_size := 0;
        for v_set in
            with gone as (
                delete from pgq.ready d
                where d.ctid = any (array(
                    select e.place from (
                        select x.place, sum(x.size) over (rows unbounded preceding) - x.size
                                   as ahead
                        from (
                            select r.ctid as place, r.size, r.expires_at from pgq.ready r
                            where r.queue_id = queue.queue_id and r.expires_at <= now
                              and r.expires_at >= v_since
                            order by r.expires_at limit "rows" for update skip locked
                        ) x
                    ) e
                    where e.ahead <= messages - v_count))
                returning d.*
            )
            select g.attempt, g.failures, g.grouped, range_agg(g.ids) as ids,
                   sum(g.size)::int as size, max(g.expires_at) as expires_at
            from gone g group by 1, 2, 3 order by g.grouped
        loop
            perform pgq._expire(
                queue, v_set.ids, v_set.attempt, v_set.failures, v_set.grouped, now);
            v_size := v_size + v_set.size;
            v_since := case when v_set.grouped then '-infinity'
                       else greatest(v_since, v_set.expires_at) end;
        end loop;
        v_count := v_count + v_size;
        exit when v_size = 0 or v_count >= messages;
    end loop;
    return v_count;
end
$$;
comment on function pgq._expire_rows(pgq.queue, int, int, timestamptz) is
    'Ends expired messages of a queue.';
