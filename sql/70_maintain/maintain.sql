-- All upkeep at once, in bounded amounts. Queues work without it: claims do what cannot wait.
create or replace procedure pgq.maintain()
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue;
    v_now timestamptz := pgq.now();
    v_row pgq.ready;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise warning 'eras do not turn under isolation level %',
            current_setting('transaction_isolation')
            using hint = 'Call pgq.maintain() under READ COMMITTED, or the log grows.';
    end if;
    perform pgq._mark_lanes();
    -- One at a time is enough, and the second need not wait.
    if not pgq._try_turn('maintain') then
        return;
    end if;
    for v_queue in select q.* from pgq.queue q order by q.queue_id loop
        perform pgq._upkeep(v_queue, 100000, v_now);
        for v_row in
            delete from pgq.ready d
            where d.ctid = any (array(
                select r.ctid from pgq.ready r
                where r.expires_at <= v_now and r.queue_id = v_queue.queue_id
                limit 1000 for update skip locked))
            returning d.*
        loop
            perform pgq._expire(
                v_queue, v_row.ids, v_row.attempt, v_row.failures, v_row.grouped, v_now);
        end loop;
        if v_queue.lane_keys is not null
           or exists (select from pgq.lane l where l.queue_id = v_queue.queue_id)
        then
            perform pgq._tidy_lanes(v_queue);
        end if;
    end loop;
    delete from pgq.waiter w where w.until < v_now - interval '1 min';
    delete from pgq.handled h
    where h.ctid = any (array(
        select i.ctid from pgq.handled i where i.handled_at < v_now - interval '7 days'
        limit 100000 for update skip locked));
    delete from pgq.staged s
    where s.ctid = any (array(
        select i.ctid from pgq.staged i where i.staged_at < v_now - interval '1 day'
        limit 100000 for update skip locked));
    perform pgq._tidy_bindings();
    perform pgq._tidy_outcomes();
    delete from pgq.dedup d
    where d.ctid = any (array(
        select e.ctid from pgq.dedup e where e.until <= v_now
        limit 100000 for update skip locked));
    -- Learnt routes are a cache: a stream of topics that never come back must not fill it.
    if (select count(*) > 20000 from pgq.route) then
        delete from pgq.route r
        where r.ctid = any (array(
            select s.ctid from pgq.route s limit 10000 for update skip locked));
    end if;
    perform pgq._tidy_filters(v_now);
    perform pgq._sweep_orphans();
    perform pgq._sweep_rights();
    perform pgq._turn_eras(v_now, true);
end
$$;
comment on procedure pgq.maintain() is
    'Optional upkeep: expired leases, due and expired messages, lanes, statistics, eras. Claims do '
    'what cannot wait by themselves; call it from a client, pg_cron or by hand, about every '
    'minute. '
    'Best as a transaction of its own.';
revoke all on procedure pgq.maintain() from public;
