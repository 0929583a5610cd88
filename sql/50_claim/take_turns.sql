-- Takes up to n messages from the lanes whose turn it is: from a few of them, about as many from
-- each, no more than the limits of a lane leave. The next claim begins behind the last of these
-- lanes, so that each lane has its turn however much the others hold. If claims lock lanes, all
-- sessions go round them together (_turn); otherwise each session goes round by itself, because
-- nothing keeps two claims that begin at the same moment from the same lanes. A session keeps its
-- place in a setting; a forged value only changes which lane comes first.
create or replace function pgq._take_turns(
    queue pgq.queue, claim pgq._claim, document jsonb, limits pgq.queue_limit, low pgq._low
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_setting text := 'pgq.turn_' || queue.queue_id;
    v_common int;
    v_turn int;
    v_locked boolean := document is null
        and num_nonnulls(limits.lane_max_leased, limits.lane_step) > 0;
    v_filter pgq.filter;
    v_test pgq.filter;  -- the same; null: the lanes decide, no message has to be tested
    v_lanes pgq._lanes;
    v_low pgq._low;
    v_seen pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_heads pgq._head[];
    v_all pgq._head[];
    v_fast boolean := claim.n <= 1000;
    v_sizes int[] := '{}';
    v_took int;
    v_size int := 0;
    v_now timestamptz;
    v_rows record;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
begin
    if document is not null then
        v_filter := pgq._keep_filter(queue, document);
        if document::text ~ E'"\\$now"' then
            v_filter.filter_id := null;  -- a message that does not match now may match later
        end if;
        v_lanes := pgq._keep_lanes(queue, v_filter);
        if v_lanes.kept = '{}' then
            perform pgq._note_ruled_out(queue.queue_id, v_filter.filter_id, claim.claimed_at);
        end if;
        if (v_lanes.kept <@ v_lanes.sure) is not true then
            v_test := v_filter;
            v_low := pgq._cursor_get(v_filter.filter_id, queue.queue_id);
        end if;
    end if;
    if v_locked then
        v_common := pgq._turn(queue.queue_id);
    end if;
    v_turn := coalesce(
        v_common, substring(current_setting(v_setting, true) from '^[0-9]{1,9}$')::int);
    if v_turn is null then  -- the first claim of a session begins anywhere
        v_turn := (random() * (
            select max(l.lane_id) from pgq.lane l where l.queue_id = queue.queue_id))::int;
    end if;
    v_all := pgq._lane_heads(
        queue, claim, limits, v_lanes.kept, low.lease, v_turn, v_test, v_low);
    -- Not if another claim has moved on meanwhile: a slow claim must not set the round back.
    if v_locked and v_all <> '{}' and pgq._turn(queue.queue_id) is not distinct from v_common then
        perform pgq._turn_set(queue.queue_id, (v_all[cardinality(v_all)]).lane_id);
    end if;
    v_heads := pgq._lane_quotas(queue.queue_id, claim, limits, low.lease, v_all);
    if v_heads <> '{}' then
        for i in 1 .. cardinality(v_heads) loop
            v_fast := v_fast and v_test.path is null and (v_heads[i]).size >= (v_heads[i]).quota
                and not (v_heads[i]).suspect;
        end loop;
        v_now := pgq.now();  -- after the end of all leases that were counted as ended
        claim.until := claim.until + (v_now - claim.claimed_at);
        claim.claimed_at := v_now;
        if v_fast then
            claim.lease_id := pgq._lease_token(claim.until);
            v_sizes := pgq._take_firsts(claim, v_heads);
        else
            v_rows := pgq._lane_rows(claim, v_heads, v_test, v_test.path is null);
            if v_rows.size > 0 then
                claim.lease_id := pgq._lease_token(claim.until);
                claim.permits := pgq._first_ids(claim.permits, v_rows.size);
                claim.n := v_rows.size;
                v_sizes := v_rows.sizes;
                -- Less than that, if suspects are among the rows: they are taken alone.
                v_took := (pgq._take_rows(claim, v_rows.places, v_rows.sets)).size;
            end if;
        end if;
        for i in 1 .. cardinality(v_sizes) loop
            continue when v_sizes[i] < 1;
            v_size := v_size + v_sizes[i];
            if limits.lane_step is not null then
                perform pgq._spend(
                    queue.queue_id, (v_heads[i]).lane, (v_heads[i]).full_at, limits.lane_step,
                    v_sizes[i], claim.claimed_at);
            end if;
        end loop;
    end if;
    if v_size > 0 then
        v_turn := (v_heads[cardinality(v_heads)]).lane_id;
        perform set_config(v_setting, v_turn::text, false);
        v_taken.lease_id := claim.lease_id;
        v_taken.size := coalesce(v_took, v_size);
    elsif queue.unlaned_rows then
        return pgq._take_unlaned(claim, limits, low, v_filter);
    elsif v_all = '{}' and v_test.filter_id is not null
          and num_nonnulls(limits.lane_max_leased, limits.lane_step) = 0
          and pgq._cursor_is_due(v_low, 0, 0, claim.claimed_at)
    then
        -- All lanes were read: the next claim need not test these messages again.
        v_low.rank := greatest(
            v_low.rank, pgq._rank(0, false, pg_sequence_last_value('pgq.message_id') + 1));
        v_low.seen := v_seen;
        v_low.own := v_own;
        perform pgq._cursor_set(v_filter.filter_id, queue, v_low, claim.claimed_at);
    else
        v_taken.missed := array(select h.place from unnest(v_all) h where h.size > 1);
        v_taken.missed := nullif(v_taken.missed, '{}');
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_turns(pgq.queue, pgq._claim, jsonb, pgq.queue_limit, pgq._low) is
    'Takes messages from the lanes whose turn it is.';
