-- Takes up to n messages of a queue that match the filter, for the duration of a lease.
--
-- The low watermark says what the row at the head of the queue looks like. Most heads are taken by
-- one of three fast paths, each of which is one statement that deletes ready rows and writes the
-- lease: _take_row, _take_singles and _take_part. pgq._claim does everything else, and runs when a
-- fast path has taken nothing.
create or replace function pgq.claim(
    topic text,
    filter jsonb default null,
    n int default 1,
    lease interval default null,
    key text default null,
    done bigint default null,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @worker
as $$
declare
    v_queue record;
    v_low pgq._low;
    v_upkeep bigint;
    v_now timestamptz;
    v_until timestamptz;
    v_lease pgq._fast_lease;
    v_taken pgq._taken;
    v_span bigint;
    v_slot int;  -- of all messages in the lease; null: not known
    v_count int;
begin
    -- All uncommon arguments in one IF: PL/pgSQL evaluates every IF as a separate expression.
    if (n between 1 and 1000000 and lease is null and caller = current_user) is not true then
        perform pgq._check_claim(caller, topic, n, lease, done);
        lease := case when lease is not null then least(
            lease, (select pgq._lease_span(q.max_lease, '10 years') from pgq.queue q
                    where q.name = claim.topic)) end;
    end if;
    if done is not null then
        v_count := pgq.ack(done);
    end if;
    -- Only the columns that a fast path needs. The duration is in seconds, so that no stored
    -- interval can make its computation fail.
    select q.queue_id, q.mode, q.secret, q.journal = 'all' as journal,
           q.paused or q.limited or q.mode <> 'queue' as special,
           least(date_part('epoch', coalesce(claim.lease, q.lease)), 601) as seconds
    into v_queue
    from pgq.queue q where q.name = claim.topic;
    v_low := pgq._low_get(current_setting('pgq.low_' || v_queue.queue_id, true), v_queue.secret);
    -- No fast path for a lease of more than ten minutes, which may be an interval of months.
    if filter is null and key is null and not v_queue.special
       and v_queue.seconds > 0 and v_queue.seconds <= 600
       and current_setting('transaction_isolation') = 'read committed'
    then
        v_now := pgq.now();
        if v_low.tick is distinct from pgq._low_tick(v_now) then
            v_upkeep := v_low.upkeep;
            v_low := (
                select (pgq._find_head(q, pgq._upkeep_tick(q, v_low, v_now), v_now)).low
                from pgq.queue q where q.queue_id = v_queue.queue_id);
            -- Empty, which is certain only if this call has done the upkeep: a claim by filter may
            -- have done it earlier in the tick.
            if v_low.size = 0 and v_low.upkeep > 0 and v_low.upkeep is distinct from v_upkeep then
                return;
            end if;
            v_now := pgq.now();
        end if;
        v_until := v_now + make_interval(secs => v_queue.seconds);
        if v_low.size = n then
            v_lease := pgq._take_row(v_queue.queue_id, v_low.rank, v_low.high, v_low.seen, n,
                                     v_queue.journal, v_now, v_until);
        elsif v_low.size = 1 then
            v_lease := pgq._take_singles(v_queue.queue_id, v_low.rank, v_low.seen, n,
                                         v_queue.journal, v_now, v_until);
        elsif v_low.size > n then
            v_lease := pgq._take_part(v_queue.queue_id, v_low.rank, v_low.high, v_low.seen, n,
                                      v_queue.journal, v_now, v_until);
        end if;
    end if;

    if v_lease.size is null then
        if v_queue.mode is distinct from 'queue' then
            perform pgq._refuse_claim(topic, pgq._is_owner(caller));
        end if;
        v_taken := pgq._claim(pgq._queue(topic), nullif(filter, '{}'), n, lease, key, v_low,
                              tended => v_until is not null);
        if (v_taken.size > 0) is not true then
            return;
        end if;
        -- The only row of the lease, if it has no others.
        select l.lease_id, l.size, l.attempt, l.ids, l.until
        into v_lease.lease_id, v_lease.size, v_lease.attempt, v_lease.ids, v_until
        from pgq.lease l where l.lease_id = v_taken.lease_id and l.size = v_taken.size;
    end if;
    v_span := upper(v_lease.ids) - lower(v_lease.ids);
    v_slot := case when lower(v_lease.ids) >= v_low.first_id
                        and v_low.era = pg_sequence_last_value('pgq.era_number')
              then (v_low.era % 3)::int end;
    if v_span <= pgq._limit('range_factor')::bigint * v_lease.size then
        return query
            select m.* from pgq._read_range(
                v_lease.lease_id, v_lease.attempt, v_until, lower(v_lease.ids),
                upper(v_lease.ids), v_slot) m
            where v_span = v_lease.size or v_lease.ids @> m.id;
    elsif v_lease.size > 0 then
        return query select * from pgq._read_ids(
            v_lease.lease_id, v_lease.attempt, v_until, v_lease.ids, v_slot);
    else
        return query
            select * from pgq._read_lease(v_taken.lease_id) m
            order by m.priority desc, m.attempt > 1 desc, m.id;
    end if;
    -- Otherwise the caller could acknowledge messages that it never got.
    get diagnostics v_count = row_count;
    if v_count < coalesce(v_lease.size, v_taken.size) then
        perform pgq._refuse_missing(coalesce(v_lease.lease_id, v_taken.lease_id));
    end if;
end
$$;
comment on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) is
    'Claims up to n messages of a queue that match the filter, in delivery order, and holds them '
    'for the lease duration. All rows of a call have the same lease_id, the token for ack, nack, '
    'bury and extend. With a key the claim is named: the same key returns the same messages until '
    'they are acknowledged. With done, the lease id of the previous batch, that lease is '
    'acknowledged first: one call and one commit end a batch and claim the next. QU003 if that '
    'lease is stale; then nothing has changed.';
