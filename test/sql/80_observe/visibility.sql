-- Roles see nothing of queues that they may not consume, not even their existence.
begin;
select no_plan();

create role sight_a;
create role sight_b;
select pgq.create_queue('a', max_attempts => 1), pgq.create_queue('b', max_attempts => 1);
select pgq.subscribe('a', 'both', '{"for": "a"}');
select pgq.subscribe('b', 'both');
select pgq.grant_queue('a', 'sight_a', 'consume');
select pgq.grant_queue('a', 'sight_a', 'publish');
select pgq.grant_queue('b', 'sight_b', 'admin');

select pgq.publish('a', '1', correlation_id => 'c') as of_a \gset
select pgq.publish('b', '2', correlation_id => 'c', reply_to => 'a') as of_b \gset
select pgq.publish('both', '3', '{"for": "a"}', correlation_id => 'c') as of_both \gset
select pgq.publish('both', '4', '{"for": "b"}', correlation_id => 'c') as of_rest \gset
select pgq.bury(lease_id, array[id]) from pgq.claim('a', n => 10) where id = :of_both;
select pgq.bury(lease_id, array[id]) from pgq.claim('b', n => 10) where id = :of_both;
select pgq.publish('b', '5', '{"k": "v"}');
select lease_id as lease from pgq.claim('b', '{"k": "v"}') \gset
select pgq.publish('a', '6', '{"k": "v"}');
select pgq.ack(lease_id) from pgq.claim('a', '{"k": "v"}');

-- views
select is(t.answer('sight_a', $$select string_agg(queue, ' ') from pgq.queue_stats$$), 'a',
    'a role sees statistics of the queues that it may consume only');
select is(t.answer('sight_a', $$select string_agg(distinct queue, ' ') from pgq.message_state$$),
    'a', 'a role sees states of messages in its queues only');
select is(t.answer('sight_a', $$select string_agg(payload::text, ' ') from pgq.dead_letter$$), '3',
    'a role sees dead letters of its queues only');
select is(t.answer('sight_a', $$select string_agg(subscriber, ' ') from pgq.subscription$$), 'a',
    'a role sees subscriptions of its queues only');
select is(t.answer('sight_a', $$select string_agg(queue, ' ') from pgq.filter_stats$$), 'a',
    'a role sees filters of its queues only');
select pgq.relay_report('a', 'relay', 'redis://a'), pgq.relay_report('b', 'relay', 'redis://b');
select is(t.answer('sight_a', $$select string_agg(queue, ' ') from pgq.relays$$), 'a',
    'a role sees relays of its queues only');
select is(t.answer('sight_a', $$select string_agg("right", ' ' order by "right")
                                from pgq.rights$$), 'consume publish',
    'a role sees its rights only');
select is((select count(distinct queue) from pgq.queue_stats), 2::bigint,
    'the owner sees all queues');
select is((select count(*) from pgq.dead_letter), 2::bigint, 'the owner sees all dead letters');

-- A function in a condition must not see rows that the view hides.
create schema sight;
grant usage, create on schema sight to sight_a;
set local role sight_a;
create table sight.seen (what text);
create function sight.spy(what text) returns boolean language plpgsql cost 0.0001 as $$
begin
    insert into sight.seen values (what);
    return true;
end
$$;
select count(*) from pgq.dead_letter where sight.spy(payload::text);
select count(*) from pgq.message_state where sight.spy(queue);
select count(*) from pgq.subscription where sight.spy(subscriber);
select count(*) from pgq.filter_stats where sight.spy(queue);
select count(*) from pgq.queue_stats where sight.spy(queue);
select count(*) from pgq.relays where sight.spy(queue);
select count(*) from pgq.rights where sight.spy(queue);
reset role;
select results_eq('select distinct what from sight.seen order by 1', $$values ('3'), ('a')$$,
    'a function in a condition does not see hidden rows');

-- functions that take the id of a message
select is(
    t.answer('sight_a', format('select string_agg(event, '' '') from pgq.history(%s)', :of_b)),
    null, 'the history of a message of another role''s queue is empty');
select is(t.answer('sight_a', 'select string_agg(event, '' '') from pgq.history(999999)'),
    null, 'the history of an unknown message is empty');
select is(
    t.answer('sight_a', format(
        'select string_agg(concat(event, queue), '' '') from pgq.history(%s)', :of_both)),
    'publish claima burya deada',
    'the history of a shared message shows only events of the role''s queue');
select is(
    t.answer('sight_a', $$select string_agg(payload::text, ' ') from pgq.replies('c')$$), '1 3',
    'replies() returns only messages that a queue of the role receives');
select is(
    t.answer('sight_a', format('select pgq.reply(%s, ''1'')', :of_b)),
    replace(t.answer('sight_a', 'select pgq.reply(999999, ''1'')'), '999999', :of_b::text),
    'a reply to a hidden message fails like a reply to an unknown one');

-- the same error for a queue or lease that does not exist and for one that is hidden
create temp table question (statement text);
insert into question values
    ($$select pgq.claim(%L)$$), ($$select pgq.claim(%L, n => -1)$$), ($$select pgq.peek(%L)$$),
    ($$select pgq.wait_begin(%L, 'w')$$), ($$select pgq.wait_end(%L, 'w')$$),
    ($$select pgq.explain_filter(%L, '{}')$$), ($$select pgq.publish(%L, '1')$$),
    ($$select pgq.publish(%L, '1', dedup_key => 'k')$$), ($$select pgq.publish_batch(%L, '{1}')$$),
    ($$insert into pgq.message (topic, payload) values (%L, '1')$$),
    ($$insert into pgq.message (topic, payload, priority) values (%L, '1', 5000)$$),
    ($$select pgq.pause(%L)$$), ($$select pgq.drop_queue(%L)$$),
    ($$select pgq.subscribe(%L, 'a')$$), ($$select pgq.unsubscribe(%L, 'both')$$),
    ($$select pgq.replay(%L)$$), ($$select pgq.alter_subscription(%L, 'both', null)$$);
select is(
    replace(t.answer('sight_a', format(statement, 'b')), '"b"', '"?"'),
    replace(t.answer('sight_a', format(statement, 'nowhere')), '"nowhere"', '"?"'),
    format(statement, 'queue') || ' does not reveal a queue')
from question;
select is(
    replace(t.answer('sight_a', format('select pgq.%s(%s)', f, :lease)), :lease::text, '?'),
    replace(t.answer('sight_a', format('select pgq.%s(%s)', f, 12345678901234)),
            '12345678901234', '?'),
    format('pgq.%s does not reveal a lease', f))
from unnest('{ack,nack,bury,release,extend,leased}'::text[]) f;
select is(
    (select count(*) from pgq.lease where lease_id = :lease), 1::bigint,
    'the hidden lease still exists');

-- seen: the handlers of a role are its own
select is(t.answer('sight_b', 'select pgq.seen(''h'', 1)'), 'false', 'a message is new to a role');
select is(t.answer('sight_b', 'select pgq.seen(''h'', 1)'), 'true',
    'a message is known to the role the second time');
select is(t.answer('sight_a', 'select pgq.seen(''h'', 1)'), 'false',
    'a message that one role has seen is new to another');
select is(pgq.seen('h', 1), false, 'a message that one role has seen is new to the owner');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
