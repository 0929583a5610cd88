-- The next rows that have no lane, or one of the given stale lanes, with a bounded number of
-- messages in them.
create or replace function pgq._unsorted_rows(queue pgq.queue, stale int[]) returns tid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select u.ctid
        from (
            select r.ctid, sum(r.size) over (rows unbounded preceding) - r.size as ahead
            from (
                (select t.ctid, t.size from pgq.ready t
                 where queue.unlaned_rows and t.queue_id = queue.queue_id and t.lane_id is null
                   and t.rank >= coalesce(queue.unlaned_rank, pgq._rank_first())
                 order by t.rank limit pgq._limit('sort_messages'))
                union all
                (select t.ctid, t.size from pgq.ready t
                 where t.lane_id = any (stale) and t.queue_id = queue.queue_id
                 limit pgq._limit('sort_messages'))
            ) r
        ) u
        where u.ahead < pgq._limit('sort_messages'));
end
$$;
comment on function pgq._unsorted_rows(pgq.queue, int[]) is
    'The next rows that are to be sorted into lanes.';
