-- Takes up to n messages off the head of a queue, in order, skipping what others are taking.
--
-- A scan of the head walks over the rows that were consumed before it: few, as long as they can
-- be cleaned up, but all of them while somebody holds an old snapshot open. So a session that has
-- taken 512 rows remembers where the head is, for a second or its next 8192 rows, and begins there.
-- The memory skips only fresh rows of one priority that were not visible when it was made; what
-- comes back ranks before them, and a scan that finds too little looks at the skipped stretch too.
create or replace function pgq._take(queue pgq.queue, n int, now timestamptz)
returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
declare
    v_none constant bigint := -9223372036854775808;
    v_sets int8multirange[] := '{}';
    v_attempts int[] := '{}';
    v_failures jsonb[] := '{}';
    v_grouped boolean[] := '{}';
    v_missed tid[];
    v_left int := n;
    v_rows pgq.ready[];
    v_count int;
    v_total int;
    v_gone tid[];
    v_plain boolean;
    v_row pgq.ready;
    v_size int;
    v_set int8multirange;
    v_rest int8multirange;
    v_memory bigint[] := nullif(current_setting('pgq.head', true), '')::bigint[];
    v_class bigint := 0::bigint;
    v_head bigint := v_none;
    v_first bigint;
    v_last bigint;
    v_stretch bigint;
    v_more bigint := 512::bigint;
    v_tick bigint := floor(date_part('epoch', now) * 10)::bigint;
    v_second bigint := v_tick / 10;
    v_moment bigint := hashtextextended(queue.name, v_tick);
    v_suits bigint := 0::bigint;
    v_number bigint := pg_sequence_last_value('pgq.era_number');
    v_before bigint;
    v_until bigint;
    -- The stretches of rank to scan, one after the other.
    v_from bigint[] := array[-9223372036854775808];
    v_to bigint[] := array[9223372036854775807];
begin
    -- Memory: queue, first fresh rank of a priority, head, rows that may be taken before the head
    -- is looked for again, the second until which all this holds, ids in a row; then, as one
    -- number, the queue's name and the tenth of a second in which claim may take rows by that (0:
    -- they do not suit), the current era, and the last id when the session saw it first: an id is
    -- given before the era is looked up, so later ones are in it.
    if v_memory[1] = queue.queue_id and v_second between v_memory[5] - 60 and v_memory[5] + 1 then
        v_class := v_memory[2];
        v_head := v_memory[3];
        v_more := v_memory[4];
        v_size := v_memory[6]::int;
        if v_memory[7] not in (0, v_moment) then
            v_more := v_more - 50;  -- claim may have taken some meanwhile
        end if;
        if v_more <= 0 or v_head <> v_none and v_second > v_memory[5] then
            -- All that can be seen counts, not only what can be locked: another transaction
            -- may give back what it has taken. Those whose turn in a group comes later stand
            -- among the fresh, anywhere.
            v_head := coalesce(
                (select r.rank from pgq.ready r
                 where r.queue_id = queue.queue_id and r.rank >= v_class
                   and not exists (select from pgq.group_head h where h.queue_id = queue.queue_id)
                 order by r.rank limit 1), v_none);
            v_more := case when v_head = v_none then 512::bigint else 8192::bigint end;
            v_until := v_second + 1;
        elsif v_head <> v_none then
            v_until := v_memory[5];
        end if;
        if v_head > v_class then
            v_from := array[v_none, v_head, v_class];
            v_to := array[v_class - 1, 9223372036854775807, v_head - 1];
        end if;
    end if;
    if v_memory[8] = v_number then
        v_before := v_memory[9];
    else
        v_before := pg_sequence_last_value('pgq.message_id');
    end if;

    for i in 1 .. cardinality(v_from) loop
        loop
            -- Lock no more rows than are needed. One, as far as the last one tells ...
            if v_left <= coalesce(v_size, 1) then
                delete from pgq.ready r
                where r.ctid = (
                    select h.ctid from pgq.ready h
                    where h.queue_id = queue.queue_id and h.rank between v_from[i] and v_to[i]
                    order by h.rank limit 1 for update skip locked)
                returning r.* into v_row;
                exit when not found;
                v_count := 1;
                v_suits := v_moment;
                v_total := v_row.size;
                v_size := v_row.size;
                v_set := v_row.ids;
                v_last := v_row.rank;
                v_plain := v_row.attempt = 0 and v_row.failures is null
                    and v_row.expires_at is null and not v_row.grouped;
                if not v_plain then
                    v_rows := array[v_row];
                end if;
            else
                -- ... or as many as hold v_left messages. Those behind the first are mostly no
                -- smaller.
                v_count := v_left;
                if v_size is distinct from 1 then
                    select count(*)::int into v_count
                    from (
                        select sum(p.size) over (order by p.rank rows unbounded preceding)
                            - p.size as ahead
                        from (
                            select q.rank, q.size from pgq.ready q
                            where q.queue_id = queue.queue_id
                              and q.rank between v_from[i] and v_to[i]
                            order by q.rank limit 1 + v_left / coalesce((
                                select h.size from pgq.ready h
                                where h.queue_id = queue.queue_id
                                  and h.rank between v_from[i] and v_to[i]
                                order by h.rank limit 1), 1)
                        ) p
                    ) s
                    where s.ahead < v_left;
                end if;
                select array_agg(g.ctid), count(*)::int, sum(g.size)::int, min(g.rank),
                       max(g.rank),
                       bool_and(g.attempt = 0 and g.failures is null and g.expires_at is null
                                and not g.grouped) and min(g.rank) >> 49 = max(g.rank) >> 49
                into v_gone, v_count, v_total, v_first, v_last, v_plain
                from (
                    select r.ctid, r.* from pgq.ready r
                    where r.queue_id = queue.queue_id and r.rank between v_from[i] and v_to[i]
                    order by r.rank
                    limit v_count
                    for update skip locked
                ) g;
                exit when v_count = 0;

                -- Mostly they are alike, and together one set, of which the end may be too much.
                if v_plain then
                    if v_total > v_left then
                        select r.* into v_row from pgq.ready r where r.ctid = v_gone[v_count];
                        v_plain := v_total - v_row.size < v_left;
                    end if;
                end if;
                if not v_plain then
                    select array_agg(r order by r.rank) into v_rows
                    from pgq.ready r where r.ctid = any (v_gone);
                end if;
                v_suits := 0::bigint;
                if v_total = v_count and v_last - v_first = v_count - 1 then
                    -- One message a row, one behind the other: the ranks tell the ids.
                    v_suits := v_moment;
                    delete from pgq.ready r where r.ctid = any (v_gone);
                    v_first := v_first & 562949953421311;
                    v_set := int8multirange(int8range(v_first, v_first + v_count));
                else
                    with gone as (
                        delete from pgq.ready r where r.ctid = any (v_gone) returning r.ids
                    )
                    select range_agg(g.ids) into v_set from gone g;
                end if;
                v_size := v_total / v_count;
            end if;
            v_more := v_more - v_count;
            if v_plain then
                if v_total > v_left then
                    v_rest := v_row.ids
                        - pgq._first_ids(v_row.ids, v_left - (v_total - v_row.size));
                    perform pgq._put_back(v_row, v_rest);
                    v_set := v_set - v_rest;
                end if;
                if v_stretch = v_last >> 49 then
                    v_sets[cardinality(v_sets)] := v_sets[cardinality(v_sets)] + v_set;
                else
                    v_sets := v_sets || v_set;
                    v_attempts := v_attempts || 0;
                    v_failures := array_append(v_failures, null);
                    v_grouped := v_grouped || false;
                    v_stretch := v_last >> 49;
                end if;
                v_left := greatest(v_left - v_total, 0);
                exit when v_left = 0;
                continue;
            end if;

            v_stretch := null;
            foreach v_row in array v_rows loop
                if v_left = 0 then
                    perform pgq._put_back(v_row, v_row.ids);
                    continue;
                end if;
                if v_row.expires_at <= now then
                    perform pgq._expire(queue, v_row.ids, v_row.attempt, v_row.failures,
                                        v_row.grouped, now);
                    continue;
                end if;
                v_set := v_row.ids;
                if v_row.size > v_left then
                    v_set := pgq._first_ids(v_row.ids, v_left);
                    perform pgq._put_back(v_row, v_row.ids - v_set);
                end if;
                v_left := greatest(v_left - v_row.size, 0);
                v_sets := v_sets || v_set;
                v_attempts := v_attempts || v_row.attempt;
                v_failures := array_append(v_failures, v_row.failures);
                v_grouped := v_grouped || v_row.grouped;
            end loop;
            exit when v_left = 0;
        end loop;
        exit when v_left = 0;
    end loop;

    if v_left = n then
        -- What can still be seen is being taken by others; of a set they may leave a part.
        v_missed := array(
            select r.ctid from pgq.ready r
            where r.queue_id = queue.queue_id and r.size > 1 order by r.rank limit 1);
    end if;
    if v_left > 0 then
        v_head := v_none;
        v_more := 512::bigint;
    elsif (v_last >> 49) & 1 = 1 and v_class <> (v_last >> 49) << 49 then
        -- The stretch of the last row: 2^49 ranks, and in the odd ones stands what is fresh.
        v_class := (v_last >> 49) << 49;
        v_head := v_none;
        v_more := least(v_more, 512);
    end if;
    v_memory := set_config(  -- an assignment is cheaper than a statement
        'pgq.head', array[queue.queue_id, v_class, v_head, v_more,
                          case when v_head <> v_none then v_until else v_second + 60 end, v_size,
                          v_suits, v_number, v_before]::text,
        false)::bigint[];
    return row(n - v_left, v_sets, v_attempts, v_failures, v_grouped, v_missed)::pgq._taken;
end
$$;
comment on function pgq._take(pgq.queue, int, timestamptz) is
    'Takes up to n messages off the head of a queue.';
revoke all on function pgq._take(pgq.queue, int, timestamptz) from public;
