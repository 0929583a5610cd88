-- Finds the next rows of a queue, and stores the low watermark.
--
-- The head is the first ready row that this transaction can see and that has not expired: not the
-- first that it can lock, because another claim may roll back. Late rows come before the watermark
-- and were not visible when it was stored. While there are any, the watermark stays where it is.
create or replace function pgq._find_head(
    queue pgq.queue, low pgq._low, now timestamptz, n int default 1
) returns pgq._queue_head
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head pgq._queue_head;
    v_tick bigint := pgq._low_tick(now);
    -- The snapshot first: rows that commit later are late rows for the next claim.
    v_seen pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_new bigint := 0::bigint;  -- rows that were made since the watermark
    v_late boolean;
    v_walked bigint;
    v_text text;
begin
    if (v_tick - low.since between 0 and pgq._limit('ticks') * pgq._limit('watermark_seconds')
        and current_setting('transaction_isolation') = 'read committed') is not true
    then
        low.rank := null;
    elsif low.size is not null then
        select count(*), bool_or(n.rank < low.rank) into v_new, v_late
        from (select r.rank from pgq.ready r
              where r.queue_id = queue.queue_id and r.xid >= pg_snapshot_xmin(low.seen)
              order by r.xid limit pgq._limit('late_rows')) n;
    end if;
    if low.rank is not null and (v_late or low.size is null) then
        v_head.late := pgq._late_rows(queue.queue_id, low, pgq._limit('late_rows'));
        v_new := (v_head.late).found;
    end if;
    if low.rank is null or v_new >= pgq._limit('late_rows') then
        -- No watermark, an old one, or too many new rows: begin at the very first row.
        v_head.late := null;
        low.rank := pgq._rank_first();
        low.since := v_tick;
    end if;
    if low.expired then
        select p.places[1], p.rank, p.size, p.suspect, p.places, p.walked
        into v_head.place, v_head.rank, v_head.size, v_head.suspect, v_head.places, v_walked
        from pgq._past_expired(queue.queue_id, now, low.rank, n) p;
    else
        select r.ctid, r.rank, r.size, r.suspect
        into v_head.place, v_head.rank, v_head.size, v_head.suspect
        from pgq.ready r
        where r.queue_id = queue.queue_id and r.rank >= low.rank
          and (r.expires_at is null or r.expires_at > now)
        order by r.rank limit 1;
    end if;

    if (v_head.late).places is not null then
        low.size := null;
    else
        -- Without a head all rows were read: new messages arrive behind the last id.
        low.rank := coalesce(v_walked, v_head.rank, greatest(
            low.rank, pgq._rank(0, false, pg_sequence_last_value('pgq.message_id'))));
        low.seen := v_seen;
        low.own := v_own;
        -- No fast path while there may be many new rows, which it looks up without a limit; nor if
        -- the watermark is not the head, because it begins there.
        low.size := case when v_head.place is null then 0
                    when v_walked < v_head.rank then null
                    when pgq._low_is_exact(queue.queue_id, v_seen) then v_head.size end;
        -- An index scan that is to return one row compares all entries of its leaf page, about
        -- 260, unless the page passes an upper bound. The bound saves a fast path 50,000
        -- instructions of 600,000.
        if low.size > 0 then
            select e.number, e.first_id into low.era, low.first_id
            from pgq.era e where e.number = pg_sequence_last_value('pgq.era_number');
            select case when count(*) = pgq._limit('window_rows') then max(w.rank)
                   else pgq._rank_last() end
            into low.high
            from (select r.rank from pgq.ready r
                  where r.queue_id = queue.queue_id and r.rank >= low.rank
                  order by r.rank limit pgq._limit('window_rows')) w;
        end if;
    end if;
    low.tick := v_tick;
    v_text := low::text;
    v_text := pgq._low_set(queue.queue_id, queue.secret, v_text);
    v_head.low := low;
    return v_head;
end
$$;
comment on function pgq._find_head(pgq.queue, pgq._low, timestamptz, int) is
    'Finds the next rows of a queue and stores its low watermark.';
