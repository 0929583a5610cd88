-- Takes the given sets, at most n messages, out of scheduled rows and puts the rest of each row
-- back. Rows that another transaction has locked are skipped.
create or replace function pgq._take_scheduled(
    queue_id int, places tid[], sets int8multirange[], n bigint
) returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with locked as materialized (
            select c.ctid as place, c.* from pgq.scheduled c
            where c.ctid = any (places)
            for update skip locked
        ), counted as (
            select l.*, w.ids as wanted, pgq._set_size(w.ids) as count
            from locked l
            join unnest(places, sets) s (place, ids) on s.place = l.place
            cross join lateral (select s.ids * l.ids as ids) w
            where w.ids <> '{}' and l.queue_id = _take_scheduled.queue_id
        ), summed as (
            select c.*, sum(c.count) over (order by c.due_at, c.place) - c.count as ahead
            from counted c
        ), taken as materialized (
            select s.*, case when n is null or s.ahead + s.count <= n then s.wanted
                        else pgq._first_ids(s.wanted, (n - s.ahead)::bigint) end as took
            from summed s where n is null or s.ahead < n
        ), gone as (
            delete from pgq.scheduled c where c.ctid = any (array(select t.place from taken t))
        ), rest as (
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            select t.queue_id, t.due_at, t.attempt, pgq._set_size(t.ids - t.took), t.grouped,
                   t.failures, t.ids - t.took
            from taken t where t.ids <> t.took
        )
        select t.due_at, t.attempt, t.failures, t.grouped, sum(pgq._set_size(t.took))::int,
               range_agg(t.took)
        from taken t group by 1, 2, 3, 4 order by 1;
end
$$;
comment on function pgq._take_scheduled(int, tid[], int8multirange[], bigint) is
    'Takes messages out of scheduled rows.';
