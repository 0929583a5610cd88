-- Registers a consumer that found nothing, so that publishing wakes it. Returns how long it may
-- sleep; zero means to claim again first.
--
-- The race: a publisher searches for listeners before this one is registered, and commits after the
-- consumer has searched for messages. So the registration is committed first (first call). Then all
-- transactions that may have missed it have to end (second call). Then the consumer claims once
-- more. After that, every message is notified while the registration lasts.
create or replace function pgq.wait_begin(
    queue text, waiter text, timeout interval default '30 s',
    caller pgq.caller default current_user
) returns interval
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_begin.queue);
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
        -- Delete expired listeners here too, in case nobody calls maintain().
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
        -- An older transaction may stay open for hours: poll less often the longer it takes. Newer
        -- transactions notify.
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
    -- At most until a message is due or a lease ends; 100 ms if a group waits for a publisher: it
    -- may end without a notification.
    select least(
        (select v_now + interval '100 ms' from pgq.group_stall g
         where g.queue_id = v_queue.queue_id limit 1),
        (select min(s.due_at) from pgq.scheduled s where s.queue_id = v_queue.queue_id),
        pgq._next_schedule(v_queue.queue_id),
        case when v_queue.limited then pgq._next_slot(v_queue, waiter, v_now) end,
        -- Lease ids are in the order of expiry: the earliest end is among the first ones.
        (select min(l.until)
         from (select k.queue_id, k.until from pgq.lease k order by k.lease_id limit 1000) l
         where l.queue_id = v_queue.queue_id and l.until < 'infinity'))
    into v_due;
    -- Do not spin: a due message that was not claimed is locked by another session.
    return least(timeout, greatest(coalesce(v_due - v_now, timeout), interval '20 ms'));
end
$$;
comment on function pgq.wait_begin(text, text, interval, pgq.caller) is
    'Registers a consumer that waits. First LISTEN on the channel of pgq.channel(queue). Then '
    'call this function in its own transaction, after a claim that found nothing. Returns how '
    'long to sleep unless notified, at most the timeout; zero means to claim again immediately. '
    'waiter is a name that no other consumer uses.';
