-- Takes up to n messages that match a filter, in order, skipping rows that others are taking.
--
-- Ready rows are tested without a lock. Only rows that hold a match are locked, and their ids that
-- do not match go back at once. The scan cursor of the filter says how far it has tested: first
-- come rows that the cursor does not cover (late rows), then the rows behind it.
create or replace function pgq._take_matching(
    queue pgq.queue, claim pgq._claim, document jsonb
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The snapshot first: a cursor must not cover rows of a lane that is added after the lanes are
    -- read.
    v_seen pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_filter pgq.filter := pgq._keep_filter(queue, document);
    v_lanes pgq._lanes := pgq._keep_lanes(queue, v_filter);
    v_by_hash boolean := v_lanes.by_lane and v_lanes.hashes is not null;
    v_low pgq._low;
    v_late pgq._late;
    v_found pgq._found;
    v_rows record;
    v_size int;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
    v_tested bigint := 0::bigint;
    v_stop bigint;
    v_suspect boolean := false;
begin
    if v_lanes.kept = '{}' and not queue.unlaned_rows then
        perform pgq._note_ruled_out(queue.queue_id, v_filter.filter_id, claim.claimed_at);
        return v_taken;
    end if;
    if document::text ~ E'"\\$now"' then
        v_filter.filter_id := null;  -- a message that does not match now may match later
    end if;
    v_low := pgq._cursor_get(v_filter.filter_id, queue.queue_id);
    if v_low.seen is not null then
        v_late := pgq._late_rows(queue.queue_id, v_low, 2147483647, v_filter.filter_id);
    end if;
    claim.part := 1;
    claim.low := coalesce(v_low.rank, pgq._rank_first());
    v_found.among := v_late.places;
    loop
        v_found := pgq._find_matches(claim, v_filter, v_lanes, v_found.among);
        v_tested := v_tested + v_found.tested;
        if v_found.places is not null then
            if v_taken.lease_id is null then
                claim.lease_id := pgq._lease_token(claim.until);
                v_taken.lease_id := claim.lease_id;
            end if;
            v_size := null;
            if v_found.sets is not null and claim.n <= pgq._limit('one_lease_row') then
                v_size := (pgq._take_sets(
                    claim, v_found.places, v_found.sets, v_found.counts, v_filter.filter_id,
                    v_found.partly)).size;
            end if;
            if v_size is not null then
                claim.part := claim.part + 1;
            else
                v_rows := pgq._take_rows(
                    claim, v_found.places, v_found.sets, v_filter.filter_id, v_found.partly);
                v_size := v_rows.size;
                claim.part := v_rows.part;
                v_suspect := v_rows.suspect;
            end if;
            v_taken.size := v_taken.size + v_size;
            claim.n := claim.n - v_size;
            if claim.n > 0 or v_found.sets is null then
                -- Rows that others have locked. Others may roll back, so the cursor stays before
                -- them.
                select least(v_stop, min(r.rank)),
                       v_taken.missed || array_agg(r.ctid) filter (where r.size > 1)
                into v_stop, v_taken.missed
                from pgq.ready r
                where r.ctid = any (v_found.places) and r.queue_id + 0 = queue.queue_id;
            end if;
            if v_size = 0 then
                -- Rows that are gone: a claim that took from them may have put the rest back.
                v_taken.missed := nullif(v_taken.missed || array(
                    select p from unnest(v_found.places) p
                    where not exists (select from pgq.ready r where r.ctid = p)), '{}');
            end if;
            exit when claim.n = 0 or v_suspect;
        end if;
        exit when v_found.low is null;
        claim.low := v_found.low;
        v_found.among := null;
    end loop;
    if v_taken.size = 0 and v_tested > 0 then
        perform pgq._warn_of_testing(queue, document, v_tested);
    elsif v_taken.size = 0 and v_by_hash then
        perform pgq._note_ruled_out(queue.queue_id, v_filter.filter_id, claim.claimed_at);
    end if;
    if (v_tested > 0 or v_taken.size > 0) and v_filter.filter_id is not null then
        insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
        values (v_filter.filter_id, queue.queue_id, 1, v_tested, v_taken.size,
                claim.claimed_at, case when v_taken.size > 0 then claim.claimed_at end);
        -- No cursor while late rows are left, or if suspects have ended the scan.
        -- A scan by hash is short: a cursor would cost more, by the rows that it does not cover.
        if v_found.high is not null and not v_suspect
           and not (v_by_hash and v_tested < 10 * pgq._limit('cursor_tests'))
           and pgq._cursor_is_due(v_low, v_tested, v_found.skipped, claim.claimed_at)
        then
            v_low.rank := least(v_stop, v_found.high);
            v_low.seen := v_seen;
            v_low.own := v_own;
            perform pgq._cursor_set(v_filter.filter_id, queue, v_low, claim.claimed_at);
        end if;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_matching(pgq.queue, pgq._claim, jsonb) is
    'Takes messages that match a filter.';
