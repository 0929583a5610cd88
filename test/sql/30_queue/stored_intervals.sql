-- Intervals that the owner stores without the checks of alter_queue do not break delivery. Each
-- value is tested in every interval column of pgq.queue, one column at a time and all together.
select no_plan();
select t.at('2026-01-01 12:00Z');

-- Uses a queue from publish to maintenance. Returns the step that fails, or null.
create function t.live(queue text) returns text language plpgsql as $$
declare
    v_lease bigint;
    v_until timestamptz;
    v_step text := 'publish';
begin
    perform pgq._rerouted();
    perform pgq.publish(queue, '1', expires_in => '1 year'),
            pgq.publish(queue, '2', dedup_key => 'k'),
            pgq.publish_batch(queue, '{3,4,5,6,7}'),
            pgq.publish(queue, '8', group_key => 'g', delay => '1 s');
    v_step := 'claim';
    select c.lease_id, c.lease_until into strict v_lease, v_until from pgq.claim(queue) c;
    if (v_until > pgq.now() and v_until <= pgq.now() + interval '10 years') is not true then
        return format('a lease until %s', v_until);
    end if;
    v_step := 'extend';
    begin
        perform pgq.extend(v_lease);
    exception
        when object_not_in_prerequisite_state then
            null;  -- the lease has its longest duration already
    end;
    v_step := 'nack';
    perform pgq.nack(v_lease, error => 'no');
    v_step := 'claim with a filter';
    select c.lease_id into strict v_lease from pgq.claim(queue, '{"msg.priority": 0}') c;
    perform pgq.bury(v_lease);
    v_step := 'claim with a lease';
    select c.lease_id into strict v_lease from pgq.claim(queue, lease => '1 min') c;
    perform t.advance('1 s');
    perform pgq.extend(v_lease, '1 min');
    v_step := 'claim with a lease of a million years';
    perform from pgq.claim(queue, lease => '1000000 years', key => 'name');
    perform from pgq.claim(queue, key => 'name');
    v_step := 'hold';
    perform from pgq.hold(queue, 'held', n => 1);
    perform from pgq.hold(queue, 'short', n => 1, lease => '1 min');
    v_step := 'upkeep';
    perform t.advance('2 h');
    perform from pgq.claim(queue, n => 10);
    v_step := 'maintain';
    perform pgq._maintain();
    v_step := 'look';
    perform count(*) from pgq.queue_stats;
    perform count(*) from pgq.metrics();
    perform count(*) from pgq.findings();
    perform count(*) from pgq.leases;
    if exists (select from pgq.check()) then
        return 'something is broken';
    end if;
    return null;
exception
    when others then
        return format('%s: %s', v_step, sqlerrm);
end $$;

-- Runs t.live with these values and rolls back. Returns the step that fails, or null.
create function t.with_values(assignments text) returns text language plpgsql as $$
declare
    v_answer text;
begin
    perform t.at('2026-01-01 12:00Z');
    begin
        perform pgq.create_queue('q', max_attempts => 2);
        execute format('update pgq.queue set %s', assignments);
        v_answer := t.live('q');
        raise exception 'undo' using errcode = 'PT000';
    exception
        when sqlstate 'PT000' then
            return v_answer;
    end;
end $$;

create temporary table value (span text);
insert into value values
    ('1000000 years'), ('-1000000 years'), ('-1 s'), ('0'), ('106751991 days'),
    ('-1000000 years 365000000 days'), ('-1000000 years 360000000 days 30 s'),
    ('1000000 years -360000000 days 30 s'),
    ('-100000000 days 2400000000:00:30'), ('100000000 days -2400000000:00:00');
-- From PostgreSQL 17 on an interval may be infinite.
insert into value select v from unnest('{infinity,-infinity}'::text[]) v
where current_setting('server_version_num')::int >= 170000;
create temporary table attribute as
select attname::text as name from pg_attribute
where attrelid = 'pgq.queue'::regclass and atttypid = 'interval'::regtype and attnum > 0;
select set_eq('select name from attribute',
    '{lease,max_lease,backoff,max_backoff,retention,dedup_window}'::text[],
    'the list of the intervals of a queue is complete');

select is(t.with_values('paused = false'), null, 'a queue works with usual values');
select is(t.with_values(format('%I = %L', name, span)), null,
    format('a queue works with %s = %s', name, span))
from attribute, value order by name, span;
select is(t.with_values(string_agg(format('%I = %L', name, span), ', ')), null,
    format('a queue works if all intervals are %s', span))
from attribute, value group by span order by span;

-- A schedule with such values does not break maintenance and delivery.
select t.at('2026-01-01 12:00Z');
select pgq.create_queue('q');
select pgq.schedule('s', 'q', '"tick"', every => '1 min');
select pgq.publish('q', '"other"');
create function t.scheduled(every interval, expires_in interval) returns text
language plpgsql as $$
begin
    update pgq.schedule s
    set every = scheduled.every, expires_in = scheduled.expires_in, next_at = pgq.now();
    perform t.advance('1 min');
    perform pgq._maintain();
    perform pgq.release(c.lease_id) from pgq.claim('q', '{"msg.topic": "q"}') c;
    return null;
exception
    when others then
        return sqlerrm;
end $$;
select is(t.scheduled(v.span::interval, null), null,
    format('maintenance works with a schedule every %s', span))
from value v;
select is(t.scheduled('1 min', v.span::interval), null,
    format('maintenance works with a schedule that expires in %s', span))
from value v;
select is_empty('select * from pgq.check()', 'nothing is broken');
select pgq.unschedule('s'), pgq.drop_queue('q', force => true);
select * from finish();
