-- Takes up to n messages of a queue that match the filter, for the time of a lease.
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
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_queue pgq.queue;
    v_now timestamptz := pgq.now();
    v_until timestamptz;
    v_tick text;
    v_suits bigint := hashtextextended(topic, floor(date_part('epoch', v_now) * 10)::bigint);
    v_memory bigint[] := nullif(current_setting('pgq.head', true), '')::bigint[];
    v_lease_id bigint;
    v_taken pgq._taken;
    v_set int8multirange;
    v_low bigint;
    v_high bigint;
    v_attempt int := 1;
    v_whole boolean;
    v_slot int;
    v_count int := 0;
    v_rest int;
begin
    -- One expression for what is rarely so: each costs time of its own, and so does each operator.
    if (n between 1 and 1000000 and lease is null and done is null
        and caller = current_user) is not true
    then
        if not pgq._is_owner(caller) then
            perform pgq._require(caller, 'consume', claim.topic);
            if done is not null then
                perform pgq._require_lease(caller, done);
            end if;
        end if;
        v_queue := pgq._queue(claim.topic);  -- QU001 comes first
        if n is null or n not between 1 and 1000000 then
            raise exception 'n must be between 1 and 1000000, not %', coalesce(n::text, 'null')
                using errcode = 'invalid_parameter_value',
                      hint = 'n is the most messages that one claim takes.';
        end if;
        if lease <= interval '0' then
            raise exception 'lease must be longer than zero'
                using errcode = 'invalid_parameter_value',
                      hint = 'Leave it out to use the queue''s lease.';
        end if;
        if done is not null then
            v_rest := pgq.ack(done);
        end if;
    end if;

    -- What stands at the head is mostly like what stood there before (see _take): one statement
    -- takes and leases it, or does nothing. Either a row that holds as many messages as are wanted:
    if v_memory[7] = v_suits and v_memory[6] = n
       and filter is null and key is null
    then
        with taken as (
            delete from pgq.ready r using pgq.queue q
            where q.name = claim.topic and q.queue_id = v_memory[1] and q.mode = 'queue'
              and not q.paused
              and r.ctid = coalesce(
                  (select h.ctid from pgq.ready h
                   where h.queue_id = v_memory[1] and h.rank < v_memory[2]
                   order by h.rank limit 1 for update skip locked),
                  (select h.ctid from pgq.ready h
                   where h.queue_id = v_memory[1] and h.rank >= v_memory[3]
                   order by h.rank limit 1 for update skip locked))
              and r.size = n and r.attempt = 0 and r.failures is null and r.expires_at is null
              and not r.grouped
            returning q.queue_id, v_now + coalesce(claim.lease, q.lease) as until,
                      q.journal = 'all' as journal, r.ids
        )
        -- All columns with their types: a list of others costs a step in between.
        insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                    grouped, journal, holder, client, key, failures, ids)
        select pgq._lease_second(t.until) + nextval('pgq.lease_id'), v_now, t.until, t.queue_id, 0,
               1, n, false, t.journal, nullif(current_setting('application_name'), ''),
               inet_client_addr(), null::text, null::jsonb, t.ids
        from taken t
        returning l.lease_id, l.until, l.ids, lower(l.ids), upper(l.ids)
        into v_lease_id, v_until, v_set, v_low, v_high;
    -- Or rows of one message, one behind the other, so that the ranks tell the ids. Fewer than are
    -- wanted will do if no stretch was skipped.
    elsif v_memory[7] = v_suits and v_memory[6] = 1
          and n between 2 and v_memory[4] and filter is null and key is null
    then
        with queue as materialized (
            select q.queue_id, v_now + coalesce(claim.lease, q.lease) as until,
                   q.journal = 'all' as journal
            from pgq.queue q
            where q.name = claim.topic and q.queue_id = v_memory[1] and q.mode = 'queue'
              and not q.paused
              -- In order, so that the planner takes the index that has both.
              and (select r.rank from pgq.ready r
                   where r.queue_id = v_memory[1] and r.rank < v_memory[2]
                   order by r.rank limit 1) is null
        ), head as materialized (
            select array_agg(h.ctid) as places, count(*)::int as size,
                   min(h.rank) & 562949953421311 as low
            from (
                select r.ctid, r.* from pgq.ready r
                where r.queue_id = (select q.queue_id from queue q) and r.rank >= v_memory[3]
                order by r.rank limit n for update skip locked
            ) h
            having max(h.rank) - min(h.rank) = count(*) - 1
               and bool_and(h.size = 1 and h.attempt = 0 and h.failures is null
                            and h.expires_at is null and not h.grouped)
               and (count(*) = n or v_memory[3] = -9223372036854775808)
        ), gone as (
            delete from pgq.ready r where r.ctid = any ((select h.places from head h)::tid[])
        )
        insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                    grouped, journal, holder, client, key, failures, ids)
        select pgq._lease_second(q.until) + nextval('pgq.lease_id'), v_now, q.until, q.queue_id, 0,
               1, h.size, false, q.journal, nullif(current_setting('application_name'), ''),
               inet_client_addr(), null::text, null::jsonb,
               int8multirange(int8range(h.low, h.low + h.size))
        from head h cross join queue q
        returning l.lease_id, l.until, l.ids, lower(l.ids), upper(l.ids), l.size
        into v_lease_id, v_until, v_set, v_low, v_high, v_rest;
        if found then
            n := v_rest;
            v_memory[4] := v_memory[4] - n;
            -- An assignment is cheaper than a statement.
            v_tick := set_config('pgq.head', v_memory::text, false);
        end if;
    end if;
    if v_lease_id is null then
        select q.* into v_queue from pgq.queue q where q.name = claim.topic;
        if v_queue.mode is distinct from 'queue' or v_queue.paused or filter is not null
           or key is not null
        then
            if v_queue.queue_id is null then
                v_queue := pgq._queue(claim.topic);  -- raises QU001
            end if;
            if v_queue.mode = 'archive' then
                raise exception 'queue "%" is an archive: it stores and does not deliver',
                    claim.topic
                    using errcode = 'feature_not_supported',
                          hint = 'Subscribe another queue to the topic, or use pgq.peek to look.';
            end if;
            if filter = '{}' then
                filter := null;
            end if;
            if key is not null then
                -- Callers of one name take turns, so that the second finds what the first has
                -- claimed.
                perform pgq._take_name(v_queue.queue_id, key);
                -- That may have taken a while, in which the queue may have got lanes, or gone.
                v_queue := pgq._queue(claim.topic);
                v_now := pgq.now();
                -- Locked, because somebody may be ending the lease, or taking it back.
                select l.lease_id into v_lease_id from pgq.lease l
                where l.queue_id = v_queue.queue_id and l.key = claim.key
                order by l.part limit 1 for update;
                if found then
                    update pgq.lease l set until = v_now + coalesce(claim.lease, v_queue.lease)
                    where l.lease_id = v_lease_id
                      and l.until < v_now + coalesce(claim.lease, v_queue.lease);
                    if current_setting('pgq.unread', true) = 'on' then
                        return;
                    end if;
                    return query select * from pgq.leased(v_lease_id);
                    return;
                end if;
            end if;
            if v_queue.paused then
                return;
            end if;
        end if;

        -- A session looks after its queue at most ten times a second, or when it finds too little.
        v_tick := v_queue.queue_id || ' ' || floor(date_part('epoch', v_now) * 10);
        if current_setting('pgq.tick', true) is distinct from v_tick then
            perform set_config('pgq.tick', v_tick, false);
            perform pgq._upkeep(v_queue, 10000, v_now);
            -- Emptying a slot means to look for its unfinished messages: with a huge backlog that
            -- is left to maintain().
            perform pgq._turn_eras(v_now, pg_relation_size('pgq.ready') < 67108864);
        end if;

        for i in 1 .. 5 loop
            if filter is null then
                v_taken := pgq._take(v_queue, n, v_now);
            else
                v_taken := pgq._take_matching(v_queue, filter, n, v_now);
            end if;
            exit when v_taken.size > 0;
            -- Found nothing: look for what is due; or wait a moment for those who are taking a
            -- part of a set, because the rest of it is for us.
            continue when i = 1 and pgq._upkeep(v_queue, 10000, v_now) > 0;
            exit when v_taken.missed is null or v_taken.missed = '{}'
                or not pgq._await_rows(v_taken.missed);
        end loop;
        if v_taken.size = 0 then
            return;
        end if;

        v_until := v_now + coalesce(lease, v_queue.lease);
        v_lease_id := pgq._lease_second(v_until) + nextval('pgq.lease_id');
        if cardinality(v_taken.sets) = 1 then
            insert into pgq.lease (lease_id, part, queue_id, attempt, size, grouped, journal,
                                   claimed_at, until, holder, client, key, failures, ids)
            values (v_lease_id, 0, v_queue.queue_id, v_taken.attempts[1] + 1, v_taken.size,
                    v_taken.grouped[1], v_queue.journal = 'all', v_now, v_until,
                    nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key,
                    v_taken.failures[1], v_taken.sets[1]);
        else
            insert into pgq.lease (lease_id, part, queue_id, attempt, size, grouped, journal,
                                   claimed_at, until, holder, client, key, failures, ids)
            select v_lease_id, row_number() over (), v_queue.queue_id, p.attempt + 1,
                   pgq._set_size(p.ids), p.grouped, v_queue.journal = 'all', v_now, v_until,
                   nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key,
                   p.failures, p.ids
            from (
                select u.attempt, u.failures, u.grouped, range_agg(u.ids) as ids
                from unnest(v_taken.sets, v_taken.attempts, v_taken.failures, v_taken.grouped)
                    u (ids, attempt, failures, grouped)
                group by 1, 2, 3
            ) p;
        end if;
        if key is not null then
            if current_setting('pgq.unread', true) is distinct from 'on' then  -- hold reads nothing
                return query select * from pgq.leased(v_lease_id);  -- in the order of every reading
            end if;
            return;
        end if;
        n := v_taken.size;
        v_memory := case when filter is null then current_setting('pgq.head')::bigint[] end;
        if cardinality(v_taken.sets) = 1 then
            v_attempt := v_taken.attempts[1] + 1;
            v_set := v_taken.sets[1];
            v_low := lower(v_set);
            v_high := upper(v_set);
        end if;
    end if;

    if v_high - v_low <= 2 * n then
        -- Mostly they stand together in the log, in their order.
        v_whole := v_high - v_low = n;
        -- If they were published since this session first saw the current era (see _take), they
        -- are in its slot: looking into one costs less than looking into three. While a new era
        -- begins they may be in two, in any order.
        v_slot := case
            when v_low > v_memory[9] and v_memory[8] = pg_sequence_last_value('pgq.era_number')
            then (v_memory[8] % 3)::int
        end;
        case v_slot
            when 0 then
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message_0 m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
            when 1 then
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message_1 m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
            when 2 then
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message_2 m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
            else
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
        end case;
        get diagnostics v_count = row_count;
        if v_count = n then
            return;
        end if;
    end if;
    if v_whole is null or v_slot is not null then
        -- They stand far apart; or not all were in the slot where they have to be: whatever the
        -- reason, nothing that is leased may be missing.
        if v_taken.size is null then
            v_taken := row(n, array[v_set], '{0}'::int[], null::jsonb[], null::boolean[],
                           null::tid[])::pgq._taken;
        end if;
        return query
            select v_lease_id, m.id, m.topic, m.priority, u.attempt + 1, m.headers, m.payload,
                   m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                   m.published_at, m.expires_at, v_until
            from unnest(v_taken.sets, v_taken.attempts) with ordinality u (ids, attempt, i)
            cross join lateral unnest(u.ids) r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            where m.era is distinct from v_slot
            order by u.i, m.id;
        get diagnostics v_rest = row_count;
        v_count := v_count + v_rest;
    end if;
    if v_count < n then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) is
    'Takes up to n messages of a queue that match the filter, in delivery order, and holds them '
    'for the lease. All rows of a call share one lease_id, the token for ack, nack, bury and '
    'extend. With a key the claim has a name: the same key returns the same messages until they '
    'are acknowledged. With done, the token of a lease, that one is acknowledged first: a consumer '
    'that is through with its batch ends it and takes the next in one call and one commit. QU003 '
    'if it is lost: nothing has changed then.';
revoke all on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) from public;
