-- Waiting: how long a consumer may sleep, and the registered listeners. The isolation specs test
-- the steps that depend on other transactions.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');
select pgq.create_queue('q', lease => '10 s', backoff => '2 s', max_backoff => '2 s'),
       pgq.create_queue('other');
-- As if everybody had ended who does not know the waiter yet.
create function pg_temp.arm(topic text, waiter text, timeout interval default '30 s') returns void
language plpgsql as $$
begin
    perform pgq.wait_begin(topic, waiter, timeout);
    update pgq.waiter w set armed = true where w.waiter = arm.waiter;
end
$$;

-- arguments
select throws_ok(format('select pgq.wait_begin(%s)', x), code, null, 'refused: ' || left(x, 40))
from (values ($$'nowhere', 'w'$$, 'QU001'), ($$'q', null$$, '22023'), ($$'q', ''$$, '22023'),
    (format('''q'', %L', repeat('w', 256)), '22023'), ($$'q', 'w', '0'$$, '22023'),
    ($$'q', 'w', '-1 s'$$, '22023'), ($$'q', 'w', null$$, '22023')) r (x, code);
select isnt(t.hint_of($$select pgq.wait_begin('q', '')$$), '', 'there is a hint');
select throws_ok($$select pgq.wait_end('nowhere', 'w')$$, 'QU001', null, 'nor the end of waiting');
select is_empty('select * from pgq.waiter', 'nobody waits yet');

-- begin and end
select is(pgq.wait_begin('q', 'w'), interval '0', 'who begins to wait has to look again first');
select is((select array[waiter, (until - pgq.now())::text, armed::text] from pgq.waiter),
    '{w,00:01:00,false}', 'it is known, for twice its timeout');
select ok(pgq.wait_begin('q', 'w') in (interval '0', interval '20 ms'),
    'the second time it has to look again too, at once or in a moment');
select pg_temp.arm('q', 'w');
select is(pgq.wait_begin('q', 'w'), interval '30 s',
    'then it may sleep, 30 s unless told otherwise');
select is(pgq.wait_begin('q', 'w', '5 s'), interval '5 s', 'or as long as it wants');
select is(pgq.wait_end('q', 'w'), true, 'it can stop waiting');
select is(pgq.wait_end('q', 'w'), false, 'but only once');
select is(pgq.wait_begin('q', 'w'), interval '0', 'and begins anew');
select pg_temp.arm('other', 'w');
select is(pgq.wait_end('q', 'w'), true, 'a waiter is known by its queue');
select is(pgq.wait_begin('other', 'w'), interval '30 s', 'and its name');
select pgq.wait_end('other', 'w');

-- not beyond what becomes due
select pg_temp.arm('q', 'w');
select pgq.publish('q', '"d"', delay => '7 s');
select is(pgq.wait_begin('q', 'w'), interval '7 s', 'a delayed message ends the sleep');
select pg_temp.arm('other', 'o');
select is(pgq.wait_begin('other', 'o'), interval '30 s', 'but only in its own queue');
select is(pgq.wait_begin('q', 'w', '5 s'), interval '5 s', 'if it is due before the timeout');
select t.advance('7 s');
select is(t.take('q'), 'd', 'then it comes');
select is(pgq.wait_begin('q', 'w'), interval '10 s', 'a lease that may expire ends the sleep');
select pgq.nack(lease_id) from pgq.lease;
select ok(pgq.wait_begin('q', 'w') between '1 s' and '2 s', 'so does a message to be tried again');
select t.advance('2 s');
select t.take('q');
select pgq.extend(lease_id, '25 s') from pgq.lease;
select is(pgq.wait_begin('q', 'w'), interval '25 s', 'an extended lease ends it later');
select pgq.ack(lease_id) from pgq.lease;
select is(pgq.wait_begin('q', 'w'), interval '30 s', 'what is done ends nothing');

-- nobody is sent round in circles by what it cannot get
select pgq.publish('q', '"p"', delay => '5 s');
select pgq.pause('q');
select is(pgq.wait_begin('q', 'w'), interval '30 s', 'in a paused queue nothing becomes due');
select t.advance('6 s');
select is(t.take('q'), null, 'a paused queue gives nothing');
select is(pgq.wait_begin('q', 'w'), interval '30 s', 'and its consumers sleep');
select pgq.resume('q');
select is(pgq.wait_begin('q', 'w'), interval '20 ms', 'what is due is claimed in a moment');
select is(t.take('q'), 'p', 'there it is');
select t.advance('11 s');
select is(pgq.wait_begin('q', 'w'), interval '20 ms', 'so is what a lease has given up');
select is(t.take('q'), 'p', 'there it is');
select pgq.ack(lease_id) from pgq.lease;

-- a group that stands still until a publisher has ended
insert into pgq.group_stall (queue_id, group_key, message_id)
select queue_id, 'g', 1 from pgq.queue where name = 'q';
select cmp_ok(pgq.wait_begin('q', 'w'), '<=', interval '1 s', 'a group that waits for somebody is '
    'looked at again soon');
delete from pgq.group_stall;

-- who is not heard of is forgotten
delete from pgq.waiter;
select pg_temp.arm('q', 'w');
select t.advance('29 s');
select pgq.wait_begin('q', 'w');
select is((select until - pgq.now() from pgq.waiter), '31 s', 'a registration that lasts is kept');
select t.advance('2 s');
select pgq.wait_begin('q', 'w');
select is((select until - pgq.now() from pgq.waiter), '1 min', 'one that ends soon is renewed');
select t.advance('61 s');
select is(pgq.wait_begin('q', 'w'), interval '0', 'one that has ended begins anew');
select is((select armed from pgq.waiter), false, 'from the first step on');
select pg_temp.arm('q', 'stale');
select t.advance('119 s');
call pgq.maintain();
select is((select count(*) from pgq.waiter), 2::bigint, 'the dead are kept for a minute');
select t.advance('2 s');
call pgq.maintain();
select is_empty('select * from pgq.waiter', 'and then swept by upkeep');
select pg_temp.arm('q', 'stale'), pg_temp.arm('other', 'stale');
select t.advance('1 h');
select pgq.wait_begin('q', 'new');
select is((select string_agg(waiter, ' ') from pgq.waiter w join pgq.queue using (queue_id)
           where name = 'q'), 'new', 'or by others who begin to wait for the queue');
select pgq.drop_queue('other'), pgq.drop_queue('q', force => true);
select is_empty('select * from pgq.waiter', 'a dropped queue has no waiters');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
