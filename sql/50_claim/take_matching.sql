-- Takes up to n messages that match a filter, in order, skipping what others are taking.
--
-- Ready rows are looked at without a lock; only those that hold a match are locked, and what does
-- not match in them goes back at once. How far the filter has looked is remembered with the
-- snapshot it looked with: the next claim looks at what stands behind that point, and at rows that
-- the snapshot could not see, wherever they stand.
create or replace function pgq._take_matching(
    queue pgq.queue, document jsonb, n int, now timestamptz
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._keep_filter(document, queue.lane_keys);
    v_taken pgq._taken;
    v_left int := n;
    v_count int := 0;
    v_kept record;
    v_scan pgq.filter_scan;
    -- A transaction that has written already could write more under the same xid: its snapshot
    -- does not tell before from after, so it is not remembered. Nor is what a filter with a clock
    -- has seen: what does not match now may match later; nor what an old snapshot has seen, for
    -- which messages are missing that were carried out of an era meanwhile.
    v_snapshot pg_snapshot := case
        when pg_current_xact_id_if_assigned() is null and document::text !~ E'"\\$now"'
             and current_setting('transaction_isolation') = 'read committed'
        then pg_current_snapshot() end;
    v_unseen pg_snapshot;
    v_after bigint := -9223372036854775808;
    v_before bigint;
    v_stop bigint;
    v_messages int := 4 * n + 16;
    v_chunk record;
    v_locked tid[];
    v_row pgq.ready;
    v_match int8multirange;
    v_tested bigint := 0::bigint;
begin
    v_taken.size := 0;
    v_kept := pgq._keep_lanes(queue, v_filter);
    if v_kept.lanes = '{}' and not queue.unlaned_rows then
        return v_taken;
    end if;
    if v_filter.filter_id is not null
       and (v_kept.lanes is null or queue.unlaned_rows or v_kept.lanes <> v_kept.sure)
    then
        select s.* into v_scan from pgq.filter_scan s
        where s.filter_id = v_filter.filter_id and s.queue_id = queue.queue_id;
        v_unseen := v_scan.snapshot;
        v_before := v_scan.rank;
    end if;

    <<chunk>>
    loop
        select array_agg(p.row order by p.rank) as rows, array_agg(p.rank order by p.rank) as ranks,
               array_agg(p.size order by p.rank) as sizes,
               array_agg(t.ids order by p.rank) as matches,
               array_agg(p.row order by p.rank) filter (where t.ids is not null) as wanted,
               max(p.rank) as last,
               coalesce(sum(p.size) filter (
                   where p.lane_id is null or p.lane_id <> all (coalesce(v_kept.sure, '{}'))), 0)
                   as tested
        into v_chunk
        from pgq._peek_rows(queue.queue_id, v_kept.lanes, v_kept.by_lane, v_unseen, v_after,
                            v_before, v_messages) p
        cross join lateral (
            select case
                when p.lane_id = any (v_kept.sure) then p.ids
                else (
                    select range_agg(int8range(m.id, m.id + 1))
                    from unnest(p.ids) r
                    join pgq.message m on m.id >= lower(r) and m.id < upper(r)
                    where pgq._test_filter(
                        v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority,
                        m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                        p.attempt + 1, m.published_at, m.expires_at, m.id, now))
            end as ids
        ) t;
        if v_chunk.rows is null then
            exit when v_unseen is null;
            -- All that is new has been looked at; now what stands behind the remembered point.
            v_unseen := null;
            v_after := v_before - 1;
            continue;
        end if;
        v_tested := v_tested + v_chunk.tested;

        if v_chunk.wanted is not null then
            -- No more rows than are needed: as many as hold v_left matches.
            select array_agg(w.row) into v_chunk.wanted
            from (
                select u.row, sum(pgq._set_size(u.ids)) over (order by u.i)
                              - pgq._set_size(u.ids) as ahead
                from unnest(v_chunk.rows, v_chunk.matches) with ordinality u ("row", ids, i)
                where u.ids is not null
            ) w
            where w.ahead < v_left;
            v_locked := array(
                select r.ctid from pgq.ready r
                where r.ctid = any (v_chunk.wanted) and r.queue_id = queue.queue_id
                for update skip locked);
            for i in 1 .. cardinality(v_chunk.rows) loop
                continue when v_chunk.matches[i] is null;
                if v_left = 0 then
                    v_stop := least(v_stop, v_chunk.ranks[i]);
                    exit chunk;
                end if;
                if v_chunk.rows[i] <> all (v_chunk.wanted) then
                    -- Others were faster at some that were wanted, so this one is needed after all.
                    v_after := v_chunk.ranks[i] - 1;
                    continue chunk;
                end if;
                if v_chunk.rows[i] <> all (v_locked) then
                    v_stop := least(v_stop, v_chunk.ranks[i]);
                    if v_chunk.sizes[i] > 1 then
                        v_taken.missed := v_taken.missed || v_chunk.rows[i];
                    end if;
                    continue;
                end if;
                delete from pgq.ready r where r.ctid = v_chunk.rows[i] returning r.* into v_row;
                if v_row.expires_at <= now then
                    perform pgq._expire(queue, v_row.ids, v_row.attempt, v_row.failures,
                                        v_row.grouped, now);
                    continue;
                end if;
                v_match := pgq._first_ids(v_chunk.matches[i] * v_row.ids, v_left);
                if v_match <> v_row.ids then
                    perform pgq._put_back(v_row, v_row.ids - v_match);
                end if;
                v_left := v_left - pgq._set_size(v_match);
                v_count := v_count + 1;
                v_taken.sets[v_count] := v_match;
                v_taken.attempts[v_count] := v_row.attempt;
                v_taken.failures[v_count] := v_row.failures;
                v_taken.grouped[v_count] := v_row.grouped;
            end loop;
        end if;
        v_after := v_chunk.last;
        exit when v_left = 0;
        v_messages := least(v_messages * 4, 100000);
    end loop;
    v_taken.size := n - v_left;
    if v_tested = 0 and v_taken.size = 0 then
        return v_taken;
    end if;

    if v_filter.filter_id is not null then
        insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at,
                                    last_at)
        values (v_filter.filter_id, queue.queue_id, 1, v_tested, v_taken.size, now,
                case when v_taken.size > 0 then now end);
        -- Not while new rows are left that stand before the point: the old memory stays right.
        -- Nor if the lanes have changed since the queue was read, before the snapshot was taken:
        -- there may be rows then that were not looked for.
        if v_tested >= 500 and v_unseen is null and v_snapshot is not null
           and exists (select from pgq.queue q
                       where q.queue_id = queue.queue_id
                         and q.lane_keys is not distinct from queue.lane_keys
                         and q.unlaned_rows = queue.unlaned_rows)
        then
            perform pgq._remember_scan(
                v_filter.filter_id, queue.queue_id, v_snapshot,
                least(v_stop, case when v_left = 0 then v_after + 1 else 9223372036854775807 end));
        end if;
    end if;
    if v_taken.size = 0 then
        perform pgq._warn_of_testing(queue, document, v_tested);
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_matching(pgq.queue, jsonb, int, timestamptz) is
    'Takes up to n messages that match a filter.';
revoke all on function pgq._take_matching(pgq.queue, jsonb, int, timestamptz) from public;
