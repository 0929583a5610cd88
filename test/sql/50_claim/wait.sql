-- Waiting: how long a consumer may sleep, and the registered listeners. The isolation specs test
-- the steps that depend on other transactions.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');
select pgq.create_queue('q', lease => '10 s', backoff => '2 s', max_backoff => '2 s'),
       pgq.create_queue('other');
-- Registers a listener and arms it, as if all older transactions had ended.
create function pg_temp.arm(topic text, waiter text, timeout interval default '30 s') returns void
language plpgsql as $$
begin
    perform pgq.wait_begin(topic, waiter, timeout);
    update pgq.waiter w set armed = true where w.waiter = arm.waiter;
end
$$;

-- arguments
select throws_ok(format('select pgq.wait_begin(%s)', x), code, null,
    'wait_begin is refused: ' || left(x, 40))
from (values ($$'nowhere', 'w'$$, 'QU001'), ($$'q', null$$, '22023'), ($$'q', ''$$, '22023'),
    (format('''q'', %L', repeat('w', 256)), '22023'), ($$'q', 'w', '0'$$, '22023'),
    ($$'q', 'w', '-1 s'$$, '22023'), ($$'q', 'w', null$$, '22023')) r (x, code);
select isnt(t.hint_of($$select pgq.wait_begin('q', '')$$), '', 'the error has a hint');
select throws_ok($$select pgq.wait_end('nowhere', 'w')$$, 'QU001', null,
    'wait_end of an unknown queue is refused');
select is_empty('select * from pgq.waiter', 'refused calls register no listener');

-- begin and end
select is(pgq.wait_begin('q', 'w'), interval '0',
    'a consumer that begins to wait must claim again first');
select is((select array[waiter, (until - pgq.now())::text, armed::text] from pgq.waiter),
    '{w,00:01:00,false}', 'the listener is registered for twice its timeout');
select ok(pgq.wait_begin('q', 'w') in (interval '0', interval '20 ms'),
    'a consumer must claim again after its second call too, at once or 20 ms later');
select pg_temp.arm('q', 'w');
select is(pgq.wait_begin('q', 'w'), interval '30 s',
    'an armed listener may sleep, 30 s by default');
select is(pgq.wait_begin('q', 'w', '5 s'), interval '5 s',
    'an armed listener may sleep for the timeout that it gives');
select is(pgq.wait_end('q', 'w'), true, 'wait_end removes a listener');
select is(pgq.wait_end('q', 'w'), false, 'wait_end of a removed listener returns false');
select is(pgq.wait_begin('q', 'w'), interval '0', 'a removed listener must register again');
select pg_temp.arm('other', 'w');
select is(pgq.wait_end('q', 'w'), true, 'wait_end removes the listener of one queue');
select is(pgq.wait_begin('other', 'w'), interval '30 s',
    'the listener of the same name on another queue stays armed');
select pgq.wait_end('other', 'w');

-- the sleep ends when a message becomes due
select pg_temp.arm('q', 'w');
select pgq.publish('q', '"d"', delay => '7 s');
select is(pgq.wait_begin('q', 'w'), interval '7 s', 'a delayed message ends the sleep');
select pg_temp.arm('other', 'o');
select is(pgq.wait_begin('other', 'o'), interval '30 s',
    'a delayed message of another queue does not end the sleep');
select is(pgq.wait_begin('q', 'w', '5 s'), interval '5 s',
    'a timeout before the message is due ends the sleep');
select t.advance('7 s');
select is(t.take('q'), 'd', 'the delayed message is delivered when it is due');
select is(pgq.wait_begin('q', 'w'), interval '10 s', 'a lease that may expire ends the sleep');
select pgq.nack(lease_id) from pgq.lease;
select ok(pgq.wait_begin('q', 'w') between '1 s' and '2 s',
    'a retry that becomes due ends the sleep');
select t.advance('2 s');
select t.take('q');
select pgq.extend(lease_id, '25 s') from pgq.lease;
select is(pgq.wait_begin('q', 'w'), interval '25 s', 'an extended lease ends the sleep later');
select pgq.ack(lease_id) from pgq.lease;
select is(pgq.wait_begin('q', 'w'), interval '30 s',
    'an acknowledged message does not end the sleep');

-- a consumer does not wake up for messages that it cannot get
select pgq.publish('q', '"p"', delay => '5 s');
select pgq.pause('q');
select is(pgq.wait_begin('q', 'w'), interval '30 s', 'in a paused queue nothing becomes due');
select t.advance('6 s');
select is(t.take('q'), null, 'a paused queue delivers nothing');
select is(pgq.wait_begin('q', 'w'), interval '30 s', 'the consumers of a paused queue sleep');
select pgq.resume('q');
select is(pgq.wait_begin('q', 'w'), interval '20 ms',
    'a consumer sleeps 20 ms if a message is due already');
select is(t.take('q'), 'p', 'the due message is delivered');
select t.advance('11 s');
select is(pgq.wait_begin('q', 'w'), interval '20 ms',
    'a consumer sleeps 20 ms if a lease has expired already');
select is(t.take('q'), 'p', 'the message of the expired lease is redelivered');
select pgq.ack(lease_id) from pgq.lease;

-- a group whose advance is deferred until a publisher has ended
insert into pgq.group_stall (queue_id, group_key, message_id)
select queue_id, 'g', 1 from pgq.queue where name = 'q';
select cmp_ok(pgq.wait_begin('q', 'w'), '<=', interval '1 s',
    'a consumer sleeps at most 1 s while a group waits for a publisher');
delete from pgq.group_stall;

-- listeners that stop calling are removed
delete from pgq.waiter;
select pg_temp.arm('q', 'w');
select t.advance('29 s');
select pgq.wait_begin('q', 'w');
select is((select until - pgq.now() from pgq.waiter), '31 s',
    'a registration that lasts long enough is not renewed');
select t.advance('2 s');
select pgq.wait_begin('q', 'w');
select is((select until - pgq.now() from pgq.waiter), '1 min',
    'a registration that ends soon is renewed');
select t.advance('61 s');
select is(pgq.wait_begin('q', 'w'), interval '0', 'a registration that has ended starts again');
select is((select armed from pgq.waiter), false, 'a registration that starts again is not armed');
select pg_temp.arm('q', 'stale');
select t.advance('119 s');
call pgq.maintain();
select is((select count(*) from pgq.waiter), 2::bigint,
    'registrations that have ended are kept for a minute');
select t.advance('2 s');
call pgq.maintain();
select is_empty('select * from pgq.waiter',
    'maintenance removes registrations a minute after their end');
select pg_temp.arm('q', 'stale'), pg_temp.arm('other', 'stale');
select t.advance('1 h');
select pgq.wait_begin('q', 'new');
select is((select string_agg(waiter, ' ') from pgq.waiter w join pgq.queue using (queue_id)
           where name = 'q'), 'new',
    'a new listener of the queue removes registrations that have ended');
select pgq.drop_queue('other'), pgq.drop_queue('q', force => true);
select is_empty('select * from pgq.waiter', 'a dropped queue has no listeners');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
