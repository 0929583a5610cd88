-- Which lanes of a queue can hold a match (null: any ready row can), and in which of them every
-- message does. A mixed lane, or one of other keys than the queue has now, can hold anything.
create or replace function pgq._keep_lanes(
    queue pgq.queue, filter pgq.filter, out lanes int[], out sure int[], out by_lane boolean)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    by_lane := false;
    if queue.lane_keys is null then
        return;
    end if;
    select coalesce(array_agg(l.lane_id), '{}'),
           coalesce(array_agg(l.lane_id) filter (where not l.mixed and filter.lane_final), '{}')
    into lanes, sure
    from (
        select k.lane_id, k.headers,
               k.label is null or k.lane_keys <> queue.lane_keys as mixed
        from pgq.lane k where k.queue_id = queue.queue_id
    ) l
    where l.mixed or jsonb_path_match(l.headers, filter.lane_path, '{}', true);
    -- One scan per lane pays while they are few; and it cannot see rows that have no lane.
    by_lane := cardinality(lanes) <= 32 and not queue.unlaned_rows;
end
$$;
comment on function pgq._keep_lanes(pgq.queue, pgq.filter) is
    'The lanes of a queue that can hold a match for a filter.';
revoke all on function pgq._keep_lanes(pgq.queue, pgq.filter) from public;
