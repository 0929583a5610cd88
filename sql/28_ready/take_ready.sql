-- Takes the given sets, at most n messages, out of ready rows and puts the rest of each row back.
-- Rows that another transaction has locked are skipped.
create or replace function pgq._take_ready(
    queue_id int, places tid[], sets int8multirange[], n bigint
) returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with locked as materialized (
            select r.ctid as place, r.* from pgq.ready r
            -- By ctid alone: with queue_id here, the planner would read the whole backlog.
            where r.ctid = any (places)
            for update skip locked
        ), counted as (
            select l.*, w.ids as wanted,
                   case when w.ids = l.ids then l.size else pgq._set_size(w.ids) end as count
            from locked l
            join unnest(places, sets) s (place, ids) on s.place = l.place
            cross join lateral (select s.ids * l.ids as ids) w
            where w.ids <> '{}' and l.queue_id = _take_ready.queue_id
        ), summed as (
            select c.*, sum(c.count) over (order by c.rank) - c.count as ahead from counted c
        ), taken as materialized (
            select s.*, f.took, case when f.took = s.wanted then s.count
                                else pgq._set_size(f.took) end as number
            from summed s
            cross join lateral (
                select case when n is null or s.ahead + s.count <= n then s.wanted
                       else pgq._first_ids(s.wanted, (n - s.ahead)::bigint) end as took) f
            where n is null or s.ahead < n
        ), gone as (
            delete from pgq.ready r where r.ctid = any (array(select t.place from taken t))
        ), rest as (
            insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                                   suspect, hash, unmatched_by, failures, ids)
            select t.queue_id, t.lane_id,
                   pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
                   t.size - t.number, pg_current_xact_id(), t.expires_at, t.grouped,
                   t.suspect, t.hash, t.unmatched_by, t.failures, t.ids - t.took
            from taken t where t.ids <> t.took
        )
        select timestamptz '-infinity', t.attempt, t.failures, t.grouped,
               sum(t.number)::int, range_agg(t.took)
        from taken t group by 2, 3, 4;
end
$$;
comment on function pgq._take_ready(int, tid[], int8multirange[], bigint) is
    'Takes messages out of ready rows.';
