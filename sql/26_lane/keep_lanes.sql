-- Which lanes of a queue can hold a match (null: any ready row can), and in which of them every
-- message matches. The overflow lane, and lanes of other keys than the queue has now, can hold any.
create or replace function pgq._keep_lanes(queue pgq.queue, filter pgq.filter)
returns pgq._lanes
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lanes pgq._lanes;
begin
    v_lanes.by_lane := false;
    if queue.lane_keys is null then
        return v_lanes;
    end if;
    select coalesce(array_agg(l.lane_id), '{}'),
           coalesce(array_agg(l.lane_id) filter (where not l.mixed and filter.lane_final), '{}'),
           coalesce(array_agg(l.lane_id) filter (where l.stale), '{}')
    into v_lanes.kept, v_lanes.sure, v_lanes.stale
    from (
        select k.lane_id, k.document, k.lane_keys <> queue.lane_keys as stale,
               k.label is null or k.lane_keys <> queue.lane_keys as mixed
        from pgq.lane k where k.queue_id = queue.queue_id
    ) l
    where l.mixed or jsonb_path_match(l.document, filter.lane_path, '{}', true);
    v_lanes.hashes := filter.lane_hashes;
    -- One scan per lane pays off while lanes are few, and it misses rows that have no lane. With
    -- hashes only stale lanes are scanned, which maintain() empties.
    v_lanes.by_lane := not queue.unlaned_rows and case
        when v_lanes.hashes is null then cardinality(v_lanes.kept) <= 32
        else cardinality(v_lanes.stale) <= 2000 end;
    return v_lanes;
end
$$;
comment on function pgq._keep_lanes(pgq.queue, pgq.filter) is
    'The lanes of a queue that can hold a match for a filter.';
