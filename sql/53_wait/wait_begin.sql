-- Registers a consumer that found nothing, so that publishing wakes it. Returns how long it may
-- sleep; no time at all means: claim again first.
--
-- The race: a publisher that looked for waiters before this one was registered commits after the
-- consumer looked for messages. So first the registration has to be committed (first call), then
-- everybody who may have missed it has to end (second call), then comes a last claim; after that
-- no message can arrive unannounced, as long as the registration lasts.
create or replace function pgq.wait_begin(
    topic text, waiter text, timeout interval default '30 s',
    caller pgq.caller default current_user
) returns interval
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_begin.topic);
    v_now timestamptz := pgq.now();
    v_waiter pgq.waiter;
    v_due timestamptz;
begin
    if wait_begin.waiter is null or wait_begin.waiter = '' or length(wait_begin.waiter) > 255 then
        raise exception 'a waiter needs a name of at most 255 characters'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use something that no other consumer uses, such as a UUID.';
    end if;
    if timeout is null or timeout <= interval '0' then
        raise exception 'timeout must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'It is the longest time that the consumer sleeps without polling.';
    end if;
    select w.* into v_waiter from pgq.waiter w
    where w.queue_id = v_queue.queue_id and w.waiter = wait_begin.waiter and w.until > v_now;
    if not found then
        insert into pgq.waiter as w (queue_id, waiter, until)
        values (v_queue.queue_id, wait_begin.waiter, v_now + 2 * timeout)
        on conflict on constraint waiter_pkey do update
        set until = excluded.until, horizon = null, armed = false;
        -- The dead are swept by the living, if nobody calls maintain().
        delete from pgq.waiter w
        where w.ctid = any (array(
            select s.ctid from pgq.waiter s
            where s.queue_id = v_queue.queue_id and s.until < v_now - interval '1 min'
            for update skip locked));
        return interval '0';
    end if;
    if not v_waiter.armed then
        v_waiter.horizon := coalesce(v_waiter.horizon, pg_current_xact_id());
        v_waiter.armed := v_waiter.horizon <= pg_snapshot_xmin(pg_current_snapshot());
        update pgq.waiter w
        set until = case when w.until < v_now + timeout then v_now + 2 * timeout else w.until end,
            horizon = v_waiter.horizon, armed = v_waiter.armed
        where w.queue_id = v_queue.queue_id and w.waiter = wait_begin.waiter;
        -- Somebody may be at it for hours: the longer it takes, the less often to look. What is
        -- published meanwhile is notified.
        return case when v_waiter.armed then interval '0' else least(timeout, greatest(
            interval '20 ms', (v_now + 2 * timeout - v_waiter.until) / 10)) end;
    end if;
    if v_waiter.until < v_now + timeout then
        update pgq.waiter w set until = v_now + 2 * timeout
        where w.queue_id = v_queue.queue_id and w.waiter = wait_begin.waiter;
    end if;
    if v_queue.paused then
        return timeout;  -- resume wakes it
    end if;
    -- Not beyond the moment when something becomes due or a lease ends; soon, if a group waits for
    -- a publisher to end, who may say nothing.
    select least(
        (select v_now + interval '100 ms' from pgq.group_stall g
         where g.queue_id = v_queue.queue_id limit 1),
        (select min(s.due_at) from pgq.scheduled s where s.queue_id = v_queue.queue_id),
        pgq._next_schedule(v_queue.queue_id),
        case when v_queue.limited then pgq._next_slot(v_queue, waiter, v_now) end,
        -- Tokens are in the order of expiry, so the first ones tell.
        (select min(l.until)
         from (select k.queue_id, k.until from pgq.lease k order by k.lease_id limit 1000) l
         where l.queue_id = v_queue.queue_id and l.until < 'infinity'))
    into v_due;
    -- What is due and was not claimed is with somebody else: not in circles.
    return least(timeout, greatest(coalesce(v_due - v_now, timeout), interval '20 ms'));
end
$$;
comment on function pgq.wait_begin(text, text, interval, pgq.caller) is
    'Call it, in a transaction of its own, after a claim that found nothing; LISTEN before, to the '
    'channel that pgq.channel(topic) names. '
    'Returns how long to sleep: until notified, or for that time, at most the timeout; no time at '
    'all means to claim again at once. The waiter is a name that no other consumer uses.';
