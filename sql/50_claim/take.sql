-- Takes up to n messages off the head of a queue, in order, skipping what others are taking.
--
-- A scan of the head walks over the rows that were consumed before it: few, as long as they can
-- be cleaned up, but all of them while somebody holds an old snapshot open. So a session that has
-- claimed 256 times remembers for its next 256 claims where the head was, and begins there. The
-- memory skips only fresh rows of one priority that were not visible when it was made; what comes
-- back ranks before them, and a scan that finds too little looks at the skipped stretch too.
create or replace function pgq._take(queue pgq.queue, n int, now timestamptz)
returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
as $$
declare
    v_taken pgq._taken;
    v_left int := n;
    v_cursor refcursor;
    v_row record;
    v_set int8multirange;
    v_gone tid[] := '{}';
    v_count int := 0;
    v_memory text := current_setting('pgq.head', true);
    v_parts text[];
    v_class bigint;
    v_head bigint;
    v_claims int := 0;
    -- The stretches of rank to scan, one after the other.
    v_from bigint[] := array[-9223372036854775808];
    v_to bigint[] := array[9223372036854775807];
begin
    -- Memory: queue, first fresh rank of a priority, head, claims since the session began to count.
    if v_memory ~ '^\d+( -?\d{1,19}){2} \d{1,9}$' then
        v_parts := string_to_array(v_memory, ' ');
        if v_parts[1] = queue.queue_id::text then
            v_claims := v_parts[4]::int;
            v_class := v_parts[2]::bigint;
            v_head := v_parts[3]::bigint;
            if v_claims >= 256 and v_claims % 256 <> 255 and v_head > v_class then
                v_from := array[-9223372036854775808, v_head, v_class];
                v_to := array[v_class - 1, 9223372036854775807, v_head - 1];
            end if;
        end if;
    end if;

    for i in 1 .. cardinality(v_from) loop
        open v_cursor for
            select r.ctid, r.rank, r.lane_id, r.attempt, r.size, r.expires_at, r.grouped,
                   r.failures, r.ids
            from pgq.ready r
            where r.queue_id = queue.queue_id and r.rank between v_from[i] and v_to[i]
            order by r.rank
            for update skip locked;
        loop
            fetch v_cursor into v_row;
            exit when not found;
            v_gone := v_gone || v_row.ctid;
            if v_row.expires_at <= now then
                perform pgq._expire(queue, v_row.ids, v_row.attempt, v_row.failures, now);
                continue;
            end if;
            v_set := v_row.ids;
            if v_row.size > v_left then
                v_set := pgq._first_ids(v_row.ids, v_left);
                insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at,
                                       grouped, failures, ids)
                values (queue.queue_id, v_row.lane_id,
                        v_row.rank + lower(v_row.ids - v_set) - lower(v_row.ids), v_row.attempt,
                        v_row.size - v_left, pg_current_xact_id(), v_row.expires_at,
                        v_row.grouped, v_row.failures, v_row.ids - v_set);
                v_left := 0;
            else
                v_left := v_left - v_row.size;
            end if;
            -- Neighbours become one range: reading one range is much cheaper than reading many.
            if v_count > 0 and v_taken.sets[v_count] -|- v_set
               and v_taken.attempts[v_count] = v_row.attempt
               and v_taken.failures[v_count] is null and v_row.failures is null
               and v_taken.grouped[v_count] = v_row.grouped
            then
                v_taken.sets[v_count] := v_taken.sets[v_count] + v_set;
            else
                v_count := v_count + 1;
                v_taken.sets[v_count] := v_set;
                v_taken.attempts[v_count] := v_row.attempt;
                v_taken.failures[v_count] := v_row.failures;
                v_taken.grouped[v_count] := v_row.grouped;
            end if;
            exit when v_left = 0;
        end loop;
        close v_cursor;
        exit when v_left = 0;
    end loop;
    v_taken.size := n - v_left;
    if v_gone <> '{}' then
        delete from pgq.ready r where r.ctid = any (v_gone);
    end if;

    if v_left = n then
        -- What can still be seen is being taken by others; of a set they may leave a part.
        v_taken.missed := array(
            select r.ctid from pgq.ready r
            where r.queue_id = queue.queue_id and r.size > 1 order by r.rank limit 1);
    end if;
    if v_left > 0 then
        v_claims := 0;
        v_class := 0;
        v_head := 0;
    else
        v_claims := v_claims + 1;
        if v_claims % 256 = 0 then
            -- Where the last row stood: 2^49 ranks, odd ones are fresh.
            v_class := (v_row.rank >> 49) << 49;
            v_head := 0;
            if (v_row.rank >> 49) & 1 = 1 then
                -- Not the rows of this claim but all that can be seen: another transaction may
                -- give back what it has taken.
                select r.rank into v_head from pgq.ready r
                where r.queue_id = queue.queue_id and r.rank >= v_class order by r.rank limit 1;
            end if;
        end if;
    end if;
    perform set_config('pgq.head', concat_ws(
        ' ', queue.queue_id, coalesce(v_class, 0), coalesce(v_head, 0), v_claims), false);
    return v_taken;
end
$$;
comment on function pgq._take(pgq.queue, int, timestamptz) is
    'Takes up to n messages off the head of a queue.';
revoke all on function pgq._take(pgq.queue, int, timestamptz) from public;
