-- The first n messages that match a filter, in order: the rows that hold them and which of their
-- ids match. Searches the given rows; or, without any, the next rows of the lanes that can hold a
-- match, or of the whole queue. Locks nothing.
create or replace function pgq._find_matches(
    claim pgq._claim, filter pgq.filter, lanes pgq._lanes, among tid[]
) returns pgq._found
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_found pgq._found;
    -- Not fields of the record, which take longer to read for each message. And out of an array,
    -- which never holds packed values: a short value that comes from a row is packed, and each test
    -- of a message would unpack it. That is a quarter of a test.
    v_path jsonpath := (array[filter.path])[1];
    v_scope text := filter.scope;
    v_equal jsonb := (array[filter.equal])[1];
    v_sure boolean := lanes.kept = lanes.sure and lanes.hashes is null;  -- nothing to be tested
    -- A scan that has tested everything leaves the cursor where new messages arrive.
    v_end bigint := greatest(
        claim.low, pgq._rank(0, false, pg_sequence_last_value('pgq.message_id') + 1));
    v_scan pgq._scan;
    v_count bigint;
    v_last bigint;
begin
    v_found.tested := 0;
    v_found.low := claim.low;
    if among is null and lanes.by_lane then
        select array_agg(p.place), max(p.rank) + 1, max(p.rank), coalesce(sum(p.size), 0)
        into among, v_found.low, v_found.high, v_found.tested
        from pgq._peek_rows(claim.queue_id, lanes, claim.low,
                            case when v_sure then claim.n else 4 * claim.n end) p;
        v_found.high := coalesce(v_found.high, v_end);
        if v_sure then
            v_found.tested := 0;
            v_found.places := among;
        end if;
        if v_sure or among is null then
            return v_found;
        end if;
    elsif among is not null then
        select coalesce(sum(r.size), 0) into v_found.tested
        from pgq.ready r
        where r.ctid = any (among) and r.unmatched_by is distinct from coalesce(filter.filter_id, 0)
          and pgq._in_lanes(lanes, r.lane_id, r.hash);
    end if;
    if among is not null then
        select array_agg(h.place), array_agg(h.ids), array_agg(h.count), max(h.rank), sum(h.count)
        into v_found.places, v_found.sets, v_found.counts, v_last, v_count
        from (
            select x.place, x.rank, range_agg(int8range(x.id, x.id + 1)) as ids,
                   count(*)::int as count
            from (
                select r.place, r.rank, m.id
                -- Separate: else the planner would find the rows by walking through all ranks.
                from (select t.ctid as place, t.* from pgq.ready t
                      where t.ctid = any (among) offset 0) r
                cross join lateral pgq._spans(r.ids, r.size) u
                join pgq.message m on m.id >= u.first and m.id < u.behind
                where r.queue_id = claim.queue_id
                  and r.unmatched_by is distinct from coalesce(filter.filter_id, 0)
                  and (r.expires_at is null or r.expires_at > claim.claimed_at)
                  and pgq._in_lanes(lanes, r.lane_id, r.hash)
                  and (u.among is null or u.among @> m.id)
                  and case when v_equal is not null then m.headers @> v_equal
                      else pgq._matches(v_path, v_scope, m, r.attempt + 1, claim.claimed_at) end
                order by r.rank limit claim.n
            ) x
            group by 1, 2
        ) h;
        if v_count = claim.n then  -- rows behind the last match are not tested yet
            v_found.partly := v_last;
            v_found.high := least(v_found.high, v_last);
            v_found.low := least(v_found.low, v_last + 1);
        end if;
        return v_found;
    end if;

    if v_scope = 'headers' then
        v_scan := pgq._scan_headers(claim, v_path, v_equal, filter.filter_id, lanes);
    else
        v_scan := pgq._scan_messages(claim, v_path, v_scope, filter.filter_id, lanes);
    end if;
    v_found.places := v_scan.places;
    v_found.sets := v_scan.sets;
    v_found.counts := v_scan.counts;
    v_count := v_scan.count;
    v_last := v_scan.last;
    v_found.high := case when v_count < claim.n then v_end else v_last end;
    v_found.low := case when v_count = claim.n then v_last + 1 end;
    v_found.partly := case when v_count = claim.n then v_last end;
    select coalesce(sum(t.size) filter (where t.tested), 0), count(*) filter (where not t.tested)
    into v_found.tested, v_found.skipped
    from (
        select r.size, r.unmatched_by is distinct from coalesce(filter.filter_id, 0) as tested
        from pgq.ready r
        where r.queue_id = claim.queue_id and r.rank >= claim.low
          -- One bound and no OR: the scan ends there instead of reading the rest of the queue.
          and r.rank <= case when v_count < claim.n then pgq._rank_last() else v_last end
          and pgq._in_lanes(lanes, r.lane_id, r.hash)
        order by r.rank offset 0
    ) t;
    return v_found;
end
$$;
comment on function pgq._find_matches(pgq._claim, pgq.filter, pgq._lanes, tid[]) is
    'The first messages that match a filter, and the ready rows that hold them.';
