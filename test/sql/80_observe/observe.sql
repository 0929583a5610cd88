-- Statistics, states, histories, explanations.
begin;
select no_plan();
select t.at(now());
set application_name = 'tester';

-- queue_stats
select pgq.create_queue('work', lease => '30 s');
select pgq.create_queue('empty');
select pgq.create_queue('store', mode => 'archive');
select is((select to_jsonb(s) from pgq.queue_stats s where queue = 'empty') @>
    '{"mode": "queue", "paused": false, "ready": 0, "scheduled": 0, "leased": 0, "dead": 0,
      "exact": true, "oldest_age": null, "next_due_at": null, "published_per_second": 0,
      "acked_per_second": 0, "failed_per_second": 0}'::jsonb, true,
    'queue_stats shows zeros for an empty queue');
select is((select array_agg(queue order by queue) from pgq.queue_stats),
    '{empty,store,work}'::text[],
    'every queue is shown');
select is((select mode from pgq.queue_stats where queue = 'store'), 'archive',
    'queue_stats shows the mode of a queue');
select t.advance('10 s');
insert into pgq.message (topic, payload, priority, published_at)
select 'work', to_jsonb(i), i % 2, pgq.now() from generate_series(1, 20) i;
select pgq.publish('work', '"delayed"', delay => '1 min');
select pgq.publish('work', '"delayed more"', delay => '2 min');
select max(lease_id) as acked from pgq.claim('work', n => 6) \gset
select t.advance('2 s');
select pgq.ack(:acked);
select max(lease_id) as failed from pgq.claim('work', n => 4) \gset
select pgq.bury(:failed, (select array_agg(id) from (select id
    from pgq.leased(:failed) limit 2) x));
select pgq.nack(:failed, (select array_agg(id) from (select id from pgq.leased(:failed) limit 1) x),
    delay => '30 s');
select t.advance('8 s');
select is((select array[ready, scheduled, leased, dead] from pgq.queue_stats where queue = 'work'),
    '{10,3,1,2}'::bigint[], 'counts are exact for a small queue');
select is((select exact from pgq.queue_stats where queue = 'work'), true,
    'queue_stats says that these counts are exact');
select is((select oldest_age from pgq.queue_stats where queue = 'work'), interval '10 s',
    'queue_stats shows the age of the oldest ready message');
select is((select next_due_at from pgq.queue_stats where queue = 'work'),
    pgq.now() + interval '22 s', 'queue_stats shows when the next message is due');
select pgq._rerouted();
select is((select acked_per_second > 0 and failed_per_second > 0 and published_per_second > 0
           from pgq.queue_stats where queue = 'work'), true,
    'queue_stats shows the rates of the last minute');
select pgq.pause('work');
select is((select paused from pgq.queue_stats where queue = 'work'), true,
    'queue_stats shows that a queue is paused');
select pgq.resume('work');
select t.advance('2 min');
select is((select acked_per_second + failed_per_second from pgq.queue_stats where queue = 'work'),
    0::float8, 'the rates are zero two minutes later');
select pgq.create_queue('large', set_size => 1);
insert into pgq.message (topic, payload) select 'large', '1' from generate_series(1, 3000);
select is((select exact from pgq.queue_stats where queue = 'large'), false,
    'the counts of a large queue are estimated');
select ok((select ready between 2000 and 4000 from pgq.queue_stats where queue = 'large'),
    'the estimate is near the true count');
select is((select exact from pgq.queue_stats where queue = 'empty'), true,
    'the counts of other queues are still exact');
select pgq.drop_queue('large', force => true), pgq.drop_queue('work', force => true);

-- message_state
select pgq.create_queue('work', lease => '30 s');
select pgq.publish('work', '"leased"', priority => 9) as leased \gset
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.publish('work', '"ready"', expires_in => '1 h') as ready \gset
select pgq.publish('work', '"delayed"', delay => '1 h') as delayed \gset
select pgq.publish('work', '"dead"', priority => 8) as dead \gset
select pgq.bury(lease_id) from pgq.claim('work');
select pgq.publish('work', '"retried"', priority => 8) as retried \gset
select pgq.nack(lease_id, delay => '5 s') from pgq.claim('work');
select pgq.publish('work', '"done"', priority => 8) as done \gset
select pgq.ack(lease_id) from pgq.claim('work');
select results_eq(
    'select id, queue, state, attempt, since, until, holder, lease_id from pgq.message_state
     order by id',
    format($$values (%s::bigint, 'work', 'leased', 1, pgq.now(), pgq.now() + interval '30 s',
                     'tester', %s::bigint),
                    (%s, 'work', 'ready', 0, null, pgq.now() + interval '1 h', null, null),
                    (%s, 'work', 'delayed', 0, null, pgq.now() + interval '1 h', null, null),
                    (%s, 'work', 'dead', 1, pgq.now(), null, 'tester', null),
                    (%s, 'work', 'retrying', 1, null, pgq.now() + interval '5 s', null, null)$$,
        :leased, :lease, :ready, :delayed, :dead, :retried),
    'every message has a state until it is acknowledged');

-- history
select pgq.drop_queue('work', force => true);
select pgq.create_queue('work', lease => '30 s', max_attempts => 3);
select pgq.publish('work', '"h"', sender => 'shop') as id \gset
select pgq.publish('work', '"other"', delay => '1 year');
select results_eq(format('select event, attempt, holder from pgq.history(%s)', :id),
    $$values ('publish', null::int, 'shop'), ('ready', 0, null)$$,
    'a new message was published and is ready');
select t.advance('1 s');
select max(lease_id) as first from pgq.claim('work') \gset
select t.advance('1 s');
select pgq.nack(:first, delay => '5 s', error => 'oops');
select results_eq(format('select event, attempt, note from pgq.history(%s) offset 1', :id),
    format($$values ('claim', 1, null), ('nack', 1, 'oops'), ('scheduled', 1, 'due %s')$$,
           pgq.now() + interval '5 s'), 'the history of a nacked message shows when it is due');
select t.advance('5 s');
select max(lease_id) as second from pgq.claim('work') \gset
select is((select note from pgq.history(:id) where event = 'claim' and attempt = 2),
    'held until ' || pgq.now() + interval '30 s',
    'the history of a leased message shows the end of the lease');
select t.advance('31 s');
select max(lease_id) as third from pgq.claim('work') \gset
select t.advance('1 s');
select pgq.bury(:third, error => 'enough');
select t.advance('1 s');
select pgq.replay('work');
select t.advance('1 s');
select max(lease_id) as fourth from pgq.claim('work') \gset
select t.advance('1 s');
select pgq.ack(:fourth);
select results_eq(format('select event, attempt, lease_id, note from pgq.history(%s)', :id),
    format($$values ('publish', null::int, null::bigint, 'work'), ('claim', 1, %1$s, null),
        ('nack', 1, %1$s, 'oops'), ('claim', 2, %2$s, null), ('timeout', 2, %2$s, null),
        ('claim', 3, %3$s, null), ('bury', 3, %3$s, 'enough'), ('replay', 0, null, null),
        ('claim', 1, %4$s, null), ('ack', 1, %4$s, null)$$, :first, :second, :third, :fourth),
    'the history shows all events of a message in order');
select is((select count(distinct queue) from pgq.history(:id)), 1::bigint,
    'the history names the queue');
select is((select array_agg(distinct holder order by holder) from pgq.history(:id)),
    '{shop,tester}'::text[], 'the history names the sender and the holder');
select pgq.publish('work', '"d"', priority => 1) as gone \gset
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.bury(:lease, error => 'bad');
select is((select note from pgq.history(:gone) where event = 'dead'), 'rejected: bad',
    'the history of a dead letter has its reason and error');
select t.advance('1 s');
select pgq.discard('work');
select is((select event from pgq.history(:gone) offset 3), 'discard',
    'the history ends with the discard of the dead letter');
select is_empty('select * from pgq.history(123456789)', 'an unknown message has no history');
select pgq.publish('work', '"g1"', group_key => 'g'), pgq.publish('work', '"g2"', group_key => 'g')
    as id2 \gset
select is((select event from pgq.history(:id2) where event <> 'publish'), 'waiting',
    'a message behind another of its group waits');

-- explain_filter
select pgq.create_queue('laned', '{type}');
insert into pgq.message (topic, payload, headers)
select 'laned', to_jsonb(i), jsonb_build_object('type', (array['a', 'b', 'c'])[i % 3 + 1], 'n', i)
from generate_series(1, 30) i;
create function pg_temp.explained(queue text, filter jsonb, item text) returns text
language plpgsql as $$
begin
    return (select string_agg(e.value, '; ') from pgq.explain_filter(queue, filter) e
            where e.item = explained.item);
end
$$;
select is(array(select distinct item from pgq.explain_filter('laned', '{"type": "a"}') order by 1),
    '{advice,compiled,"estimated cost",filter,final,kept,"lane keys","lane test","lanes kept",
      "looks at","matches now",pruned}'::text[], 'a filter is explained in rows');
select is(pg_temp.explained('laned', '{"type": "a"}', 'lanes kept'), '1 of 3',
    'explain_filter shows how many lanes are kept');
select is(pg_temp.explained('laned', '{"type": "a"}', 'kept'), '{"type": "a"}',
    'explain_filter shows the values of the kept lanes');
select is(
    (select array_agg(value order by value) from pgq.explain_filter('laned', '{"type": "a"}')
     where item = 'pruned'), array['{"type": "b"}', '{"type": "c"}'],
    'explain_filter shows the values of the other lanes');
select matches(pg_temp.explained('laned', '{"type": "a"}', 'final'), '^yes',
    'explain_filter says that lanes decide');
select is(pg_temp.explained('laned', '{"type": "a"}', 'matches now'), '10',
    'explain_filter shows how many messages match now');
select is(pg_temp.explained('laned', '{"type": "a"}', 'estimated cost'),
    'as a claim without a filter', 'explain_filter estimates the cost of a claim');
select matches(pg_temp.explained('laned', '{"type": "a"}', 'advice'), '^none',
    'explain_filter has no advice for a filter on lane keys');
select matches(pg_temp.explained('laned', '{"type": "a", "n": {"$lt": 4}}', 'final'), '^no',
    'explain_filter says that messages are tested');
select is(pg_temp.explained('laned', '{"type": "a", "n": {"$lt": 4}}', 'matches now'), '1',
    'explain_filter counts the messages that pass the test');
select alike(pg_temp.explained('laned', '{"n": 3}', 'advice'),
    $$make n a lane key: pgq.alter_queue('laned', lane_keys => '{type,n}')%$$,
    'explain_filter advises a lane key beside those of the queue');
select alike(pg_temp.explained('laned', '{"n": 3, "msg.sender": null}', 'advice'),
    'make one of msg.sender, n a lane key:%', 'explain_filter advises one of several fields');
select pgq.create_queue('full', '{a,b,c,d}');
select alike(pg_temp.explained('full', '{"n": 3}', 'advice'),
    'give the filter a queue of its own%', 'a queue with four lane keys gets no fifth one');
select matches(pg_temp.explained('laned', '{"n": {"$gt": 99}}', 'advice'), 'subscribe',
    'explain_filter advises a queue with a subscription');
select is(pg_temp.explained('laned', '{"type": "A"}', 'hint'),
    'none of the last 30 messages has had such a value in type; did you mean "a"?',
    'explain_filter finds a value that differs by case');
select is(pg_temp.explained('laned', '{"n": ["3"]}', 'hint'),
    'none of the last 30 messages has had such a value in n; did you mean 3?',
    'explain_filter finds a value that differs by type');
select is(pg_temp.explained('laned', '{"tpye": "a"}', 'hint'),
    'none of the last 30 messages has the field tpye; did you mean type?',
    'explain_filter finds a field that differs by spelling');
select is(pg_temp.explained('laned', '{"payload.colour": "red"}', 'hint'),
    'none of the last 30 messages has the field payload.colour',
    'explain_filter finds a field that no message has');
select matches(pg_temp.explained('laned', '{"type": "A"}', 'advice'), '^correct the filter',
    'the advice for a value that no message has is to correct the filter');
select is(pg_temp.explained('laned', '{"type": "a"}', 'hint'), null, 'a good filter needs no hint');
select is(pg_temp.explained('laned', '{"n": {"$gt": 99}}', 'hint'), null,
    'a filter that matches nothing now, but could, needs no hint');
select matches(pg_temp.explained('work', '{"a": 1}', 'lanes'), 'no lane keys',
    'explain_filter says that a queue has no lane keys');
select matches(pg_temp.explained('laned', '{}', 'advice'), '^none',
    'explain_filter has no advice for an empty filter');
select is((select count(*) from pgq.filter), 0::bigint, 'explain_filter stores no filter');
select throws_ok($$select pgq.explain_filter('nowhere', '{}')$$, 'QU001', null,
    'explain_filter for an unknown queue is refused');
select throws_ok($$select pgq.explain_filter('work', '{"a": {"$what": 1}}')$$, 'QU004', null,
    'explain_filter for an invalid filter is refused');

-- version
select matches(pgq.version(), '^\d+\.\d+\.\d+$', 'the version is three numbers');

-- pgq.check() finds damage that the test causes
select is_empty('select * from pgq.check()', 'nothing is broken');
create function pg_temp.found(planting text) returns text language plpgsql as $$
declare
    v_found text;
begin
    begin
        perform t.damage(planting);
        select string_agg(distinct problem, '; ' order by problem) into v_found from pgq.check();
        raise exception 'undo' using errcode = 'ZZ000';
    exception when sqlstate 'ZZ000' then
        return v_found;
    end;
end
$$;
select matches(pg_temp.found(p.planting), p.problem, 'the check finds: ' || p.problem)
from (values
    ('update pgq.ready set size = size + 1', 'a set has another size than it says'),
    ($$update pgq.ready set ids = '{}', size = 0$$, 'a set is empty'),
    ($$insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
       select queue_id, now(), 0, size, ids from pgq.ready$$, 'a message is in two places'),
    ('delete from pgq.message', 'a set has ids of no message'),
    ('insert into pgq.message_1 (id, era, topic, payload, published_at, publisher)
      select id, 1, topic, payload, published_at, publisher from pgq.message_0',
     'a message is in the log twice'),
    ('update pgq.ready set queue_id = 999', 'a set belongs to no queue'),
    ('update pgq.ready set rank = rank + 1', 'differs from that of its lowest id'),
    ('update pgq.message set priority = priority + 1', 'another priority or expiry'),
    ('update pgq.ready set expires_at = now()', 'another priority or expiry'),
    ('update pgq.ready set lane_id = 999', 'a lane that is not there'),
    ('update pgq.ready set lane_id = null', 'without a lane in a queue with lanes'),
    ($$update pgq.message set headers = headers || '{"type": "z"}'$$, 'a lane with other values'),
    ('update pgq.ready set hash = 7', 'a lane with other values'))
    p (planting, problem);

select is_empty('select * from pgq.check()', 'nothing is broken after the damage is undone');
select * from finish();
rollback;
