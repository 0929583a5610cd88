-- maintain(): the upkeep of claims for all queues, and its own work.
begin;
-- Slots are emptied at commit; here, at once.
set constraints all immediate;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '10 s', max_attempts => 2);
select pgq.create_queue('news', lease => '10 s', on_expiry => 'discard');

-- leases, delays, expiry
select pgq.publish('work', '"leased"');
select count(*) from pgq.claim('work');
select pgq.publish('work', '"delayed"', delay => '5 s');
select pgq.publish('work', '"short"', expires_in => '5 s');
select pgq.publish('work', '"long"', expires_in => '1 h');
select pgq.publish('news', '"short"', expires_in => '5 s');
call pgq.maintain();
select is(t.held('work', 'ready'), 'short long',
    'maintain() changes nothing before a time is reached');
select t.advance('11 s');
call pgq.maintain();
select is(t.held('work', 'ready'), 'leased delayed long',
    'messages of expired leases and delayed messages become ready');
select is(t.held('work', 'dead'), 'short', 'expired messages become dead letters');
select is(t.held('news', 'ready'), null,
    'expired messages are not ready in a queue that discards them');
select is(t.held('news', 'dead'), null,
    'expired messages are not dead letters in a queue that discards them');
select is((select max(attempt) from pgq.ready), 1, 'the expired lease counts as an attempt');
select lives_ok('call pgq.maintain()', 'maintain() can be repeated');

-- dedup keys
select pgq.publish('work', '1', dedup_key => 'a');
select t.advance('4 min');
select pgq.publish('work', '2', dedup_key => 'b');
select t.advance('2 min');
call pgq.maintain();
select results_eq('select dedup_key from pgq.dedup', $$values ('b')$$,
    'dedup keys are deleted after their window');

-- filters
select count(*) from pgq.claim('work', '{"n": 1}'), generate_series(1, 3);
select count(*) from pgq.claim('work', '{"n": 1}');
select count(*) from pgq.claim('work', '{"n": 1}');
select count(*) from pgq.claim('work', '{"n": 2}');
create temp table stats as select * from pgq.filter_stats;
select cmp_ok((select count(*) from pgq.filter_hit), '>', 2::bigint,
    'claims write statistics of their filters');
call pgq.maintain();
select is((select count(*) from pgq.filter_hit), 2::bigint,
    'maintain() merges the statistics of each filter into one row');
select bag_eq('select * from pgq.filter_stats', 'select * from stats',
    'merging does not change the numbers of filter_stats');
select t.advance('23 h');
call pgq.maintain();
select is((select count(*) from pgq.filter), 2::bigint, 'filters are kept for a day');
select count(*) from pgq.claim('work', '{"n": 2}');
select t.advance('2 h');
call pgq.maintain();
select results_eq('select document from pgq.filter', $$values ('{"n": 2}'::jsonb)$$,
    'filters that were not used for a day are deleted');
select is((select count(*) from pgq.filter_stats), 1::bigint,
    'the statistics of deleted filters are deleted');
select is((select count(*) from pgq.filter_hit where filter_id = 0), 1::bigint,
    'the numbers of deleted filters still count for their queue');
select queue_id from pgq.queue where name = 'news' \gset
delete from pgq.filter_scan;
insert into pgq.filter_scan values
    ((select filter_id from pgq.filter), :queue_id,
     jsonb_populate_record(null::pgq._low, '{"rank": 1}'), now()),
    (987654, :queue_id, jsonb_populate_record(null::pgq._low, '{"rank": 1}'), now());
call pgq.maintain();
select is((select count(*) from pgq.filter_scan), 1::bigint,
    'the scan cursor of a deleted filter is deleted');
select pgq.drop_queue('news', force => true);
call pgq.maintain();
select is((select count(*) from pgq.filter_scan), 0::bigint,
    'the scan cursor of a dropped queue is deleted');

-- rows of dropped queues, written by transactions that did not see the drop
select pgq.publish('work', '"mine"') as id \gset
create temp table copy_of as select * from pgq.ready where ids @> :id::bigint;
update copy_of set queue_id = 4711;
insert into pgq.ready select * from copy_of;
insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
select 4712, pgq.now() + interval '1 h', 0, size, ids from copy_of;
insert into pgq.lease (lease_id, claimed_at, until, queue_id, part, attempt, size, grouped,
                       journal, ids)
select 1, pgq.now(), pgq.now() + interval '1 h', 4713, 1, 1, size, false, true, ids from copy_of;
insert into pgq.lane (queue_id, lane_keys) values (4714, '{a}');
insert into pgq.dedup values (4716, 'work', 'k', :id, pgq.now() + interval '1 h');
insert into pgq.dead_letter (queue_id, message_id, reason, attempts, failures, failed_at, topic,
                             priority, headers, payload, published_at)
values (4715, :id, 'timeout', 1, '[]', now(), 'work', 0, '{}', '1', now());
select is((select count(*) from pgq.check() where problem = 'a set belongs to no queue'), 4::bigint,
    'pgq.check() finds rows that belong to no queue');
call pgq.maintain();
select is_empty('select queue_id from pgq.ready where queue_id > 4000
    union all select queue_id from pgq.scheduled where queue_id > 4000
    union all select queue_id from pgq.lease where queue_id > 4000
    union all select queue_id from pgq.lane where queue_id > 4000
    union all select queue_id from pgq.dedup where queue_id > 4000
    union all select queue_id from pgq.dead_letter where queue_id > 4000',
    'maintain() deletes rows that belong to no queue');
select is(t.held('work', 'ready') like '%mine', true,
    'maintain() keeps the rows of existing queues');

-- routing cache
insert into pgq.route select 'topic.' || i, 0, '{}', '{}', '{}', '{}'
from generate_series(1, 20001) i;
call pgq.maintain();
select cmp_ok((select count(*) from pgq.route), '<', 10100::bigint,
    'the size of the routing cache is limited');
select isnt(pgq.publish('work', '"cached again"'), null,
    'publishing works after maintain() has reduced the routing cache');

-- rows from before a queue had lanes
select pgq.create_queue('later', lease => '1 h');
insert into pgq.message (topic, payload, headers)
select 'later', to_jsonb(i), jsonb_build_object('k', i % 2) from generate_series(1, 6) i;
select pgq.alter_queue('later', lane_keys => '{k}');
select is((select count(*) from pgq.ready r join pgq.queue using (queue_id)
           where name = 'later' and lane_id is null), 1::bigint,
    'existing messages have no lane when their queue gets lane keys');
call pgq.maintain();
select is((select count(distinct lane_id) from pgq.ready r join pgq.queue using (queue_id)
           where name = 'later' and lane_id is not null), 2::bigint,
    'maintain() sorts existing messages into lanes');
select is(t.take('later', '{"k": 1}', 9), '1 3 5', 'filters find existing messages in their lanes');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
