-- Messages that were published one by one are taken by a fast path while the head of the queue
-- has the expected form; otherwise _take_head takes them. The order is the same.
begin;
select no_plan();
select t.at(now());
set local track_functions = 'all';

create function t.publish_some(first int, last int) returns void language sql begin atomic
    select pgq.publish('work', to_jsonb(i)) from generate_series(first, last) i;
end;
-- What a claim returns, and whether it needed _take_head.
create function t.taken(n int) returns text language plpgsql as $$
declare
    v_calls bigint := coalesce(pg_stat_get_xact_function_calls('pgq._take_head'::regproc), 0);
    v_taken text := t.take('work', n => taken.n);
begin
    return v_taken || case coalesce(pg_stat_get_xact_function_calls('pgq._take_head'::regproc), 0)
                      when v_calls then ' (at once)' else '' end;
end $$;
select pgq.create_queue('work');
select t.publish_some(1, 9);
select is(t.taken(3), '1 2 3 (at once)', 'the first claim uses the fast path');
select is(t.taken(3), '4 5 6 (at once)', 'the second claim uses the fast path');
select is(t.taken(4), '7 8 9 (at once)',
    'the fast path takes fewer messages than asked for if no more are ready');
select results_eq(
    'select l.size, l.attempt, l.part, l.journal, l.ids::text from pgq.lease l',
    $$values (3, 1, 0, true, format('{[%s,%s)}', currval('pgq.message_id') - 8,
                                     currval('pgq.message_id') - 5)),
             (3, 1, 0, true, format('{[%s,%s)}', currval('pgq.message_id') - 5,
                                     currval('pgq.message_id') - 2)),
             (3, 1, 0, true, format('{[%s,%s)}', currval('pgq.message_id') - 2,
                                     currval('pgq.message_id') + 1))$$,
    'each claim has a lease of one row');
select is(t.taken(4), null, 'nothing is left');
select t.publish_some(10, 12);
select is(t.taken(2), '10 11', 'a claim after one that found nothing uses the general path');
select is(t.taken(2), '12 (at once)', 'the next claim uses the fast path');
select is_empty('select * from pgq.check()', 'nothing is broken');

-- higher priorities
select t.publish_some(1, 6);
select is(t.taken(2), '1 2 (at once)', 'the fast path takes single messages');
select pgq.publish('work', '"urgent"', priority => 9);
select is(t.taken(2), 'urgent 3', 'a message of higher priority is delivered first');
select is(t.taken(2), '4 5', 'the next claim uses the general path');
select is(t.taken(2), '6 (at once)', 'the claim after that uses the fast path');

-- rows of different kinds
select t.publish_some(1, 4);
select is(t.taken(2), '1 2 (at once)', 'the fast path takes single messages');
select count(*) from pgq.publish_batch('work', array['"a"', '"b"', '"c"']::jsonb[]);
select t.publish_some(5, 6);
select is(t.taken(3), '3 4 a', 'a claim takes single messages and a part of a set behind them');
select is(t.taken(3), 'b c 5', 'a claim takes the rest of the set and a single message behind it');
select t.publish_some(7, 8);
select is(t.taken(2), '6 7', 'a claim after the set uses the general path');
select pgq.publish('work', '"soon over"', expires_in => '1 h');
select t.publish_some(9, 10);
select is(t.taken(3), '8 soon over 9 (at once)',
    'the fast path takes a message that expires later, with others');
select pgq.publish('work', '"grouped"', group_key => 'g');
select t.publish_some(11, 12);
select is(t.taken(2), '10 grouped', 'a claim takes the head of a group with others');
select is(t.taken(2), '11 12 (at once)',
    'the fast path takes the messages behind the head of a group');

-- a large row before small ones
select count(*) from pgq.publish_batch('work', array['"x"', '"y"', '"z"']::jsonb[]);
select t.publish_some(1, 3);
select is(t.taken(6), 'x y z 1 2 3',
    'a claim takes as many messages as it asks for, however small the later rows are');

-- messages of another queue between them
select pgq.create_queue('other');
create function t.publish_mixed(first int, last int) returns void language sql begin atomic
    select pgq.publish(case i % 2 when 1 then 'work' else 'other' end, to_jsonb(i))
    from generate_series(first, last) i;
end;
select t.publish_mixed(1, 12);
select is(t.taken(2), '1 3', 'a claim takes messages whose ids have gaps');
select is(t.taken(2), '5 7 (at once)', 'the fast path takes messages whose ids have gaps');
select t.publish_some(13, 16);
select is(t.taken(2), '9 11 (at once)', 'the fast path takes the last of them');
select is(t.taken(2), '13 14 (at once)', 'the fast path takes the messages behind them');
select is(t.taken(2), '15 16 (at once)', 'the fast path takes all messages to the end');

-- changes of the queue
select t.publish_some(1, 6);
select is(t.taken(2), '1 2 (at once)', 'the fast path takes single messages');
select pgq.pause('work');
select is(t.taken(2), null, 'a paused queue delivers nothing');
select pgq.resume('work');
select is(t.taken(2), '3 4 (at once)', 'the fast path is used after resume');
select pgq.alter_queue('work', journal => 'failures', lease => '7 min');
select is(t.taken(2), '5 6 (at once)', 'the fast path is used after alter_queue');
select results_eq(
    'select l.journal, l.until - l.claimed_at from pgq.lease l order by l.lease_id desc limit 1',
    $$values (false, interval '7 min')$$, 'the fast path uses the changed policy');
select t.publish_some(1, 5);
select pgq.claim('work', n => 2, lease => '3 min');
select is((select l.until - l.claimed_at from pgq.lease l order by l.claimed_at desc, l.ids desc
           limit 1), interval '3 min', 'a claim can set its own lease duration');
select is(t.taken(3), '3 4 5 (at once)', 'the fast path takes the rest');

-- redeliveries
select t.publish_some(1, 2);
select pgq.nack(lease_id, array[id], delay => '0') from pgq.claim('work', n => 2);
select pgq.publish('work', to_jsonb(i), priority => 9) from generate_series(3, 4) i;
select is(t.taken(2), '3 4', 'messages of higher priority precede redeliveries');
select is((select array_agg(c.attempt) from pgq.claim('work', n => 2) c), '{2,2}',
    'redeliveries are at their second attempt');

select t.at(pgq.now() + interval '1 s');
select t.publish_some(1, 2);
select is(t.taken(2), '1 2 (at once)', 'a second later a claim uses the fast path again');
select t.publish_some(3, 4);
select pgq.alter_queue('work', mode => 'archive');
select throws_ok($$select pgq.claim('work', n => 2)$$, '0A000', null,
    'an archive delivers nothing, even if it was a queue a moment ago');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
