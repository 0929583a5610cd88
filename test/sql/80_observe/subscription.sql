-- The statistics of subscriptions: how often they matched, and when last.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');
create function pg_temp.stats(subscriber text) returns text language sql as $$
    select string_agg(format('%s:%s@%s', pattern, match_count,
                             to_char(last_matched_at at time zone 'UTC', 'SS')),
                      ' ' order by pattern collate "C")
    from pgq.subscription s where s.subscriber = stats.subscriber $$;

select pgq.subscribe('a', 'x.*');
select pgq.subscribe('a', 'y', '{"type": "t"}');
select pgq.subscribe('b', '#', '{"type": "t"}');
select is(pg_temp.stats('a'), 'x.*:0@ y:0@', 'a new subscription has matched nothing');
select is((select array_agg(distinct created_at = now()) from pgq.subscription), '{t}',
    'a subscription shows when it was created');
select t.advance('1 s');
select pgq.publish('x.1', '1'), pgq.publish('y', '2'), pgq.publish('y', '3', '{"type": "t"}');
select is(pg_temp.stats('a'), 'x.*:1@01 y:1@01', 'single messages are counted');
select t.advance('1 s');
select pgq.publish_batch('x.2', '{1,2,3}', '{"{}","{\"type\": \"t\"}","{}"}'::jsonb[]);
select is(pg_temp.stats('a'), 'x.*:4@02 y:1@01', 'batches are counted by message');
select is(pg_temp.stats('b'), '#:2@02', 'only messages that match the filter are counted');
select t.advance('1 s');
insert into pgq.message (topic, payload, headers) values
    ('y', '1', '{"type": "t"}'), ('x.3', '1', '{}'), ('y', '2', '{}'),
    ('x.3', '1', '{"type": "t"}');
select is(array[pg_temp.stats('a'), pg_temp.stats('b')], '{x.*:6@03 y:2@03,#:4@03}',
    'messages of many topics in one statement are counted');
select t.advance('1 s');
select pgq.publish('x.9', '1', delay => '1 h'), pgq.publish('x.9', '1', group_key => 'g'),
       pgq.publish('x.9', '1', group_key => 'g');
select is(pg_temp.stats('a'), 'x.*:9@04 y:2@03',
    'delayed messages and messages that wait in a group are counted');
select count(*) as hits from pgq.binding_hit \gset
call pgq.maintain();
select is(array[pg_temp.stats('a'), pg_temp.stats('b')], '{x.*:9@04 y:2@03,#:4@03}',
    'maintenance changes no count');
select is((select count(*) from pgq.binding_hit), 3::bigint,
    'maintenance leaves one row per subscription');
select cmp_ok(:hits, '>', 3, 'there were more rows before');
call pgq.maintain();
select is(array[pg_temp.stats('a'), pg_temp.stats('b')], '{x.*:9@04 y:2@03,#:4@03}',
    'a second maintenance changes no count');
select pgq.alter_subscription('a', 'y', '{"type": "u"}');
select is(pg_temp.stats('a'), 'x.*:9@04 y:2@03', 'the count continues after the filter is changed');
select pgq.unsubscribe('a', 'y');
select is(pg_temp.stats('a'), 'x.*:9@04', 'an ended subscription is not listed');
call pgq.maintain();
select is((select count(*) from pgq.binding_hit), 2::bigint,
    'maintenance removes the counts of an ended subscription');
select pgq.subscribe('a', 'y');
select is(pg_temp.stats('a'), 'x.*:9@04 y:0@',
    'a new subscription to the same topic begins at zero');

-- every binding that matches is counted, though the queue gets the message once
select pgq.create_queue('c');
select pgq.subscribe('c', 'c.#');
select pgq.subscribe('c', '*', '{"type": "t"}');
select pgq.subscribe('c', '#', '{"type": "u"}');
select t.at('2030-01-01 00:01:05+00');
select pgq.publish('c', '"1"', '{"type": "t"}');
select is(pg_temp.stats('c'), '#:0@ *:1@05 c.#:1@05',
    'every subscription that matches a message is counted');
select pgq.publish_batch('c', '{"\"2\"","\"3\""}',
    '{"{\"type\": \"t\"}","{\"type\": \"u\"}"}'::jsonb[]);
select is(pg_temp.stats('c'), '#:1@05 *:2@05 c.#:3@05',
    'every subscription that matches a message of a batch is counted');
select is(t.take('c', n => 9), '1 2 3', 'each message is delivered once');
select pgq.unsubscribe_all('c'), pgq.subscribe('c', 'd'), pgq.subscribe('c', 'd.#');
select pgq.publish('d', '"4"');
insert into pgq.message (topic, payload) values ('d', '"5"'), ('d', '"6"');
select is(pg_temp.stats('c'), 'd:3@05 d.#:3@05',
    'every matching subscription is counted if none of them has a filter');
select is(t.take('c', n => 9), '4 5 6', 'each message is delivered once');

-- messages that are not delivered are not counted
select pgq.subscribe('e', 'e.#'), pgq.subscribe('e', 'e', '{"type": "t"}');
select pgq.publish('e', '1', '{"type": "t"}', dedup_key => 'k'),
       pgq.publish('e', '1', '{"type": "t"}', dedup_key => 'k');
insert into pgq.message (topic, payload, headers, dedup_key, deliver_at) values
    ('e', '2', '{"type": "t"}', 'k', null), ('e', '3', '{"type": "t"}', 'l', null),
    ('e', '4', '{"type": "t"}', 'l', null), ('e', '5', '{"type": "t"}', null, 'infinity');
select is(pg_temp.stats('e'), 'e:2@05 e.#:2@05',
    'duplicates and messages that are only stored are not counted');
select is((select sum(size) from pgq.ready r join pgq.queue q using (queue_id) where q.name = 'e'),
    2::bigint, 'duplicates and messages that are only stored are not delivered');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
