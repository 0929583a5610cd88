-- Retries messages whose delivery failed, or makes them dead letters.
-- A delay of null is the queue's backoff; a delay of zero makes them ready at once. Messages that
-- timed out together do not become dead letters: it is not known which of them is the cause.
create or replace function pgq._retry(
    queue pgq.queue, ended pgq.lease, outcome text, delay interval, error text, details jsonb,
    now timestamptz, alone boolean default true
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_failures jsonb := pgq._failure(
        ended.failures, outcome, ended.attempt, ended.claimed_at, ended.holder, ended.client,
        error, now);
    v_delay interval := delay;
    v_size int := ended.size;
    v_reason text := case
        when outcome = 'bury' then 'rejected'
        when ended.attempt < queue.max_attempts or not alone then null
        when outcome = 'timeout' then 'timeout'
        when error is null then 'max_attempts'
        else 'processing_error'
    end;
begin
    insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                             client, error, ids)
    values (now, ended.queue_id, outcome, ended.attempt, ended.size, ended.lease_id,
            ended.claimed_at, ended.holder, ended.client, error, ended.ids);
    if queue.queue_id is null then
        return;  -- the queue was dropped, and its messages with it
    end if;
    if v_delay is null then
        -- Doubles with every attempt; half of it is random, so that messages that failed together
        -- are not redelivered together.
        v_delay := make_interval(secs => least(
            extract(epoch from pgq._bounded(queue.max_backoff, pgq._limit('policy_years')))::float8,
            extract(epoch from pgq._bounded(queue.backoff, pgq._limit('policy_years')))::float8
                * 2 ^ least(ended.attempt - 1, 62))
            * (0.5 + random() / 2));
    end if;
    -- Dead letters that release their group do not return to its backlog. A tenth of the suspects
    -- returns alone.
    if ended.runs and (v_reason is null or queue.on_dead = 'block') then
        ended := pgq._return_runs(
            ended, v_failures, case when v_reason is null then v_delay end, now,
            case when outcome = 'timeout' then
                ceil(ended.size::float8 / pgq._limit('suspect_split'))::int else ended.size end);
    end if;
    -- Messages in a group backlog are not dead letters.
    insert into pgq.outcome (queue_id, event, reason, size)
    select ended.queue_id, outcome, o.reason, o.size
    from (values (v_reason, ended.size), (null, v_size - ended.size)) o (reason, size)
    where o.size > 0;
    if ended.size = 0 then
        return;
    end if;
    if v_reason is not null then
        perform pgq._bury_set(
            ended.queue_id, ended.ids, ended.attempt, v_reason, error, details, v_failures,
            ended.holder, ended.client, now);
        if ended.grouped and queue.on_dead = 'release' then
            perform pgq._advance_lease(queue, ended, now);
        end if;
        return;
    end if;
    if v_delay > interval '0' then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
        values (ended.queue_id, now + v_delay, ended.attempt, ended.size, ended.grouped,
                v_failures, ended.ids);
        perform pgq._wake(ended.queue_id);
    else
        -- Suspects are redelivered in smaller rows, each of them alone.
        if outcome = 'timeout' then
            queue.set_size := least(
                queue.set_size, ceil(ended.size::float8 / pgq._limit('suspect_split'))::int);
        end if;
        perform pgq._enqueue(queue, ended.ids, ended.attempt, v_failures, ended.grouped,
                             suspect => outcome = 'timeout');
    end if;
end
$$;
comment on function pgq._retry(
    pgq.queue, pgq.lease, text, interval, text, jsonb, timestamptz, boolean) is
    'Retries messages whose delivery failed, or makes them dead letters.';
