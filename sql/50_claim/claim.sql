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
    v_queue pgq.queue;
    v_now timestamptz;
    v_until timestamptz;
    v_low pgq._low;
    v_lease_id bigint;
    v_head pgq._fast_lease;
    v_taken pgq._taken;
    v_count int;
begin
    -- All uncommon arguments in one IF: PL/pgSQL evaluates every IF as a separate expression.
    if (n between 1 and 1000000 and lease is null and done is null
        and caller = current_user) is not true
    then
        perform pgq._check_claim(caller, topic, n, lease, done);
        if done is not null then
            perform pgq.ack(done);
        end if;
        lease := case when lease is not null then least(
            lease, (select pgq._lease_span(q.max_lease, '10 years') from pgq.queue q
                    where q.name = claim.topic)) end;
    end if;
    select q.* into v_queue from pgq.queue q where q.name = claim.topic;
    if v_queue.mode is distinct from 'queue' then
        perform pgq._refuse_claim(topic);
    end if;
    v_now := pgq.now();
    v_low := pgq._low_get(current_setting('pgq.low_' || v_queue.queue_id, true), v_queue.secret);
    if filter is null and key is null and not (v_queue.paused or v_queue.limited)
       and current_setting('transaction_isolation') = 'read committed'
    then
        if v_low.tick is distinct from pgq._low_tick(v_now) then
            v_low := (pgq._find_head(v_queue, pgq._upkeep_tick(v_queue, v_low, v_now), v_now)).low;
            if v_low.size = 0 and v_low.upkeep > 0 then
                return;
            end if;
            v_now := pgq.now();
        end if;
        -- Computed in seconds: so no stored interval can make it fail.
        v_until := v_now + make_interval(secs => greatest(least(
            date_part('epoch', coalesce(lease, v_queue.lease)), 601), 0));
        if v_until = v_now or v_until > v_now + interval '10 min' then
            null;  -- the token of a long lease has to be compared with others: see _lease_token
        elsif v_low.size = n then
            v_lease_id := pgq._lease_second(v_until) + nextval('pgq.lease_id');
            v_head := pgq._take_row(v_queue, v_low, n, v_lease_id, v_now, v_until);
        elsif v_low.size = 1 then
            v_lease_id := pgq._lease_second(v_until) + nextval('pgq.lease_id');
            v_head := pgq._take_singles(v_queue, v_low, n, v_lease_id, v_now, v_until);
        elsif v_low.size > n then
            v_lease_id := pgq._lease_second(v_until) + nextval('pgq.lease_id');
            v_head := pgq._take_part(v_queue, v_low, n, v_lease_id, v_now, v_until);
        end if;
        if v_head.size > 0 then
            return query
                select * from pgq._read_ids(v_lease_id, v_head.attempt, v_until, v_head.ids);
            get diagnostics v_count = row_count;
            if v_count < v_head.size then
                perform pgq._refuse_missing(v_lease_id);
            end if;
            return;
        end if;
    end if;

    v_taken := pgq._claim(v_queue, nullif(filter, '{}'), n, lease, key, v_low,
                          tended => v_until is not null);
    if v_taken.size > 0 then
        if exists (select from pgq.lease l where l.lease_id = v_taken.lease_id and l.part = 0) then
            return query select * from pgq._read_lease(v_taken.lease_id);
        else
            return query
                select * from pgq._read_lease(v_taken.lease_id) m
                order by m.priority desc, m.attempt > 1 desc, m.id;
        end if;
        get diagnostics v_count = row_count;
        if v_count < v_taken.size then
            perform pgq._refuse_missing(v_taken.lease_id);
        end if;
    end if;
end
$$;
comment on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) is
    'Takes up to n messages of a queue that match the filter, in delivery order, and holds them '
    'for the lease duration. All rows of a call share one lease_id, the token for ack, nack, bury '
    'and extend. With a key the claim has a name: the same key returns the same messages until '
    'they are acknowledged. With done, the token of a lease, that lease is acknowledged first: a '
    'consumer ends its batch and takes the next one in one call and one commit. QU003 if that '
    'lease is stale: nothing has changed then.';
