-- Waiting messages are moved to another queue, or rescheduled.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '1 h', max_attempts => 2, set_size => 4);
select pgq.create_queue('slow', lane_keys => '{even}');
select pgq.create_queue('store', mode => 'archive');
create function pg_temp.send(queue text, variadic names text[]) returns void language plpgsql as $$
begin
    perform pgq.publish_batch(queue, array(select to_jsonb(n) from unnest(names) n),
        array(select jsonb_build_object('name', n, 'even', n in ('b', 'd', 'f'))
              from unnest(names) n));
end
$$;
create function pg_temp.id_of(name text) returns bigint language sql as $$
    select m.id from pgq.message m where m.payload #>> '{}' = name order by m.id desc limit 1 $$;
create function pg_temp.events(name text) returns text language sql as $$
    select string_agg(h.queue || ' ' || h.event || coalesce(' ' || h.note, ''), ', ')
    from pgq.history(pg_temp.id_of(name)) h where h.event not in ('publish') $$;

-- move
select pg_temp.send('work', 'a', 'b', 'c', 'd', 'e', 'f');
select is(pgq.move('work', 'slow', dry_run => true), 6::bigint,
    'a dry run of move counts the waiting messages');
select is(pgq.move('work', 'slow', n => 2, dry_run => true), 2::bigint,
    'a dry run of move counts at most n messages');
select is(t.held('work', 'ready'), 'a b c d e f', 'a dry run of move changes nothing');
select is(pgq.move('work', 'slow', '{"even": true}', 2), 2::bigint,
    'move takes at most n messages that match');
select is(t.held('work', 'ready'), 'a c e f',
    'the messages that are first in the order of delivery are moved');
select is(t.held('slow', 'ready'), 'b d', 'the moved messages are ready in the other queue');
select is(pg_temp.events('b'), 'work move to slow, slow arrive from work, slow ready',
    'the history of a moved message shows the move');
select is(t.take('slow', '{"even": true}', 9), 'b d',
    'moved messages are in the lanes of the other queue');
select is_empty('select * from pgq.check()', 'the state is sound');
select is(pgq.move('work', 'slow'), 4::bigint, 'move without a filter takes all waiting messages');
select is(pgq.move('work', 'slow'), 0::bigint, 'a second move finds no messages');
select is(t.take('slow', n => 9), 'a c e f', 'moved messages are delivered in order');
select is((select array_agg(distinct attempt) from pgq.lease), '{1}'::int[],
    'moved messages start with attempt 1');

select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease) l;

-- delayed messages, retries
select pgq.publish('work', '"later"', delay => '1 h');
select pg_temp.send('work', 'r');
select pgq.nack(lease_id, delay => '2 h', error => 'no') from pgq.claim('work');
select is(pgq.move('work', 'slow'), 2::bigint, 'delayed messages and retries are moved');
select results_eq(
    $$select state, until from pgq.message_state where queue = 'slow' and state <> 'leased'
      order by until$$,
    $$values ('delayed', pgq.now() + interval '1 h'), ('delayed', pgq.now() + interval '2 h')$$,
    'moved messages stay scheduled for the same time');
select t.advance('2 h');
select is(t.take('slow', n => 9), 'later r',
    'the other queue delivers moved messages when they are due');
select is((select failures -> 0 ->> 'error' from pgq.lease where failures is not null), 'no',
    'a moved message keeps its failures');

-- ordering groups
select pgq.create_queue('line');
select pgq.create_queue('line2');
select pgq.publish('line', to_jsonb(n), jsonb_build_object('name', n), group_key => left(n, 1))
from unnest('{g1,g2,g3,h1,h2}'::text[]) n;
select pgq.publish('line2', '"g0"', group_key => 'g');
select is(pgq.move('line', 'line2', '{"name": {"$in": ["g1", "g3", "h1", "h2"]}}'), 4::bigint,
    'messages of groups are moved');
select is(t.held('line', 'ready'), 'g2', 'the group continues without the moved messages');
select is(t.held('line', 'waiting'), null, 'no message of the group waits behind the head');
select is(t.held('line2', 'ready'), 'h1 g0', 'moved messages join the groups of the other queue');
select is(t.held('line2', 'waiting'), 'g1 g3 h2',
    'moved messages wait behind the head of the same group in the other queue');
select is_empty('select * from pgq.check()', 'the groups are sound');

-- a message that both queues have
select pgq.subscribe('copy', 'work');
select pg_temp.send('work', 'shared', 'twice');
select is(pgq.move('work', 'copy'), 0::bigint,
    'messages that the other queue already holds are not moved');
select pgq.ack(lease_id) from pgq.claim('copy');
select is(pgq.move('work', 'copy'), 1::bigint,
    'a message that the other queue has finished is moved');
select is(t.held('work', 'ready') || '/' || t.held('copy', 'ready'), 'twice/shared twice',
    'only the message that the other queue has finished is moved');
select is(pgq.purge('work'), 1::bigint, 'the message that was not moved is purged');
select is(t.held('copy', 'ready'), 'shared twice', 'the purge does not affect the other queue');
select is_empty('select * from pgq.check()', 'the state is sound');

-- reschedule
select pg_temp.send('work', 'm', 'n', 'o', 'p');
select is(pgq.reschedule('work', array[pg_temp.id_of('n'), pg_temp.id_of('p')], delay => '1 h',
    dry_run => true), 2::bigint, 'a dry run of reschedule counts the messages');
select is(t.held('work', 'ready'), 'm n o p', 'a dry run of reschedule changes nothing');
select is(pgq.reschedule('work', array[pg_temp.id_of('n'), pg_temp.id_of('p')], delay => '1 h'),
    2::bigint, 'reschedule postpones messages by id');
select is(t.held('work', 'ready') || '/' || t.held('work', 'delayed'), 'm o/n p',
    'the other messages stay ready');
select is(pgq.reschedule('work', filter => '{"name": "p"}', at => pgq.now() + interval '3 h'),
    1::bigint, 'a delayed message is rescheduled by filter');
select is((select max(until) from pgq.message_state where queue = 'work'),
    pgq.now() + interval '3 h', 'a rescheduled message is due at the given time');
select is(pgq.reschedule('work', dry_run => true), 2::bigint,
    'a dry run of reschedule without a time counts the scheduled messages');
select is(pgq.reschedule('work'), 2::bigint,
    'reschedule without a time makes scheduled messages due now');
select is(t.take('work', n => 9), 'm n o p', 'rescheduled messages that are due can be claimed');
select is_empty('select * from pgq.check()', 'the state is sound');
select pgq.nack(l.lease_id, delay => '1 h') from (select distinct lease_id from pgq.lease l
    join pgq.queue q using (queue_id) where name = 'work') l;
select is(pgq.reschedule('work', filter => '{"name": "o"}'), 1::bigint,
    'a retry is brought forward');
select is((select array_agg(attempt) from pgq.claim('work')), '{2}'::int[],
    'a retry that is brought forward keeps its attempts');
select is((select string_agg(event, ' ' order by at, event) from pgq.history(pg_temp.id_of('p'))
    where event in ('reschedule', 'nack')), 'nack reschedule reschedule reschedule',
    'the history of a message shows each reschedule');

-- reschedule in a group
select pgq.purge('line');
select pgq.publish('line', to_jsonb(n), jsonb_build_object('name', n), group_key => 'g',
                   delay => case n when 'k3' then interval '5 h' end)
from unnest('{k1,k2,k3}'::text[]) n;
select is(pgq.reschedule('line', filter => '{"name": "k2"}', delay => '1 h'), 1::bigint,
    'a message that waits behind the head of its group is postponed');
select is(pgq.reschedule('line', filter => '{"name": "k3"}'), 1::bigint,
    'a delayed message that waits behind the head of its group is brought forward');
select pgq.ack(lease_id) from pgq.claim('line');
select is(t.held('line', 'delayed') || '/' || t.held('line', 'waiting'), 'k2/k3',
    'a postponed message that becomes the head is delayed and holds up its group');
select t.advance('1 h');
select pgq.ack(lease_id) from pgq.claim('line');
select is(t.take('line'), 'k3',
    'a message that was brought forward is not delayed when it becomes the head');
select is_empty('select * from pgq.check()', 'the state is sound');

-- bad input
select throws_ok(format('select pgq.%s', x), code, null, x) from (values
    ('move(''work'', ''nowhere'')', 'QU001'), ('move(''nowhere'', ''work'')', 'QU001'),
    ('move(''work'', ''work'')', '22023'), ('move(''work'', ''store'')', '0A000'),
    ('move(''work'', ''slow'', n => 0)', '22023'),
    ('move(''work'', ''slow'', ''{"$what": 1}'')', 'QU004'),
    ('reschedule(''nowhere'')', 'QU001'), ('reschedule(''work'', delay => ''-1 s'')', '22023'),
    ('reschedule(''work'', at => ''infinity'')', '22023'),
    ('reschedule(''work'', at => now(), delay => ''1 s'')', '22023')) v (x, code);
-- named arguments
select lives_ok($$select pgq.purge(topic => 'a', filter => null, dry_run => true) from pgq.queue
    where false$$, 'purge accepts all its arguments by name');
select lives_ok($$select pgq.cancel(topic => 'a', ids => null, filter => null, dedup_key => null,
    dry_run => true) from pgq.queue where false$$, 'cancel accepts all its arguments by name');
select lives_ok($$select pgq.move(topic => 'a', to_topic => 'b', filter => null, n => null,
    dry_run => true) from pgq.queue where false$$, 'move accepts all its arguments by name');

select * from finish();
rollback;
