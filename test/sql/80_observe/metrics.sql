-- Metrics: their values, who sees them, and that counters only grow.
begin;
select no_plan();
select t.at(now());

create function pg_temp.metric(name text, labels jsonb default '{}') returns float8
language plpgsql as $$
begin
    return (select m.value from pgq.metrics() m
            where m.name = metric.name and m.labels @> metric.labels);
end
$$;
create function pg_temp.of_queue(queue text) returns jsonb language plpgsql as $$
begin
    return (select jsonb_object_agg(m.name || coalesce('_' || (m.labels ->> 'reason'), ''), m.value)
            from pgq.metrics() m where m.labels ->> 'queue' = of_queue.queue and m.value <> 0);
end
$$;

-- the form
select pgq.create_queue('work', lane_keys => '{type}', max_attempts => 2, lease => '30 s');
select pgq.create_queue('empty');
select pgq.subscribe('news', 'news.#');
select is_empty(
    $$select name from pgq._metric where name !~ '^pgq_[a-z_]+$' or help is null
        or kind not in ('gauge', 'counter') or (kind = 'counter') <> (name ~ '_total$')$$,
    'names are those of Prometheus, and counters end in _total');
select is_empty(
    $$select name from pgq.metrics() where name is null or kind is null or help is null
        or value is null or jsonb_typeof(labels) <> 'object'$$,
    'every row is complete');
select is_empty(
    $$select m.name, l.key from pgq.metrics() m, jsonb_each(m.labels) l
      where jsonb_typeof(l.value) <> 'string' or l.key !~ '^[a-z]+$'$$,
    'labels are strings');
select is_empty(
    $$select name, labels from pgq.metrics() group by 1, 2 having count(*) > 1$$,
    'no metric has two rows with the same labels');
select is_empty(
    $$select name from pgq.metrics()
      group by name having count(distinct array(select jsonb_object_keys(labels))) > 1$$,
    'all rows of a metric have the same label names');
select set_eq(
    $$select distinct name from pgq.metrics() where name <> 'pgq_findings'$$,
    $$select name from pgq._metric
      where name not in ('pgq_snapshot_holder_seconds', 'pgq_findings')$$,
    'every metric has rows, except findings and snapshot holders, which may be absent');
select is((select array_agg(distinct labels ->> 'queue') from pgq.metrics()),
    '{empty,news,work,NULL}'::text[], 'every queue has rows');
select is(pg_temp.of_queue('empty'), '{"pgq_counts_exact": 1}', 'an empty queue has zeros');
select is((select labels ->> 'version' from pgq.metrics() where name = 'pgq_info'), pgq.version(),
    'the version is a label');

-- backlog, age, messages in flight
insert into pgq.message (topic, payload, headers, published_at)
select 'work', to_jsonb(i), jsonb_build_object('type', i % 2), pgq.now()
from generate_series(1, 20) i;
select pgq.publish('work', '"delayed"', delay => '1 h');
select pgq.publish('news.today', '1'), pgq.publish('news.today', '2');
select t.advance('10 s');
select max(lease_id) as lease from pgq.claim('work', n => 4) \gset
select t.advance('5 s');
select is(pg_temp.of_queue('work') - '{pgq_published_messages_per_second}'::text[],
    '{"pgq_ready_messages": 16, "pgq_scheduled_messages": 1, "pgq_leased_messages": 4,
      "pgq_counts_exact": 1, "pgq_oldest_ready_seconds": 15, "pgq_leases": 1,
      "pgq_oldest_lease_seconds": 5, "pgq_lanes": 2}'::jsonb,
    'metrics show the backlog, its age and the messages in flight');
select cmp_ok(pg_temp.metric('pgq_published_messages_per_second', '{"queue": "work"}'), '>',
    0::float8, 'the publishing rate is above zero');
select is(pg_temp.metric('pgq_published_messages_total'), 23::float8,
    'published messages are counted');
select is(pg_temp.metric('pgq_claims_total'), 1::float8, 'claims are counted');
select is(pg_temp.metric('pgq_subscription_matches_total',
    '{"queue": "news", "pattern": "news.#"}'), 2::float8, 'matches of subscriptions are counted');

-- messages that end otherwise than by an acknowledgement
select id as one from pgq.leased(:lease) limit 1 \gset
select pgq.bury(:lease, array[:one]::bigint[]);
select pgq.ack(:lease, (select array_agg(id) from (select id from pgq.leased(:lease) limit 1) x));
select cmp_ok(pg_temp.metric('pgq_acked_messages_per_second', '{"queue": "work"}'), '>', 0::float8,
    'acknowledgements have a rate');
select cmp_ok(pg_temp.metric('pgq_failed_messages_per_second', '{"queue": "work"}'), '>', 0::float8,
    'failures have a rate');
select t.advance('1 min');
select is(pg_temp.metric('pgq_expired_leases', '{"queue": "work"}'), 1::float8,
    'a lease past its end is counted as expired');
-- Messages that timed out together are redelivered one by one.
select max(lease_id) as second from pgq.claim('work', n => 2) \gset
select pgq.release(:second);
select is(pg_temp.of_queue('work') -> 'pgq_lease_expiries_total', '2',
    'both messages of the expired lease are counted');
select is(pg_temp.of_queue('work') -> 'pgq_retries_total', '2', 'a lease expiry counts as a retry');
select is(pg_temp.of_queue('work') -> 'pgq_released_messages_total', '1', 'a release is counted');
select max(lease_id) as third from pgq.claim('work', n => 2) \gset
select pgq.nack(:third, error => 'no');
select is(pg_temp.metric('pgq_dead_letters_total', '{"queue": "work", "reason": "rejected"}'),
    1::float8, 'a buried message is counted as a dead letter');
select is(
    pg_temp.metric('pgq_dead_letters_total', '{"queue": "work", "reason": "processing_error"}'),
    1::float8, 'a message that failed for the last time is counted as a dead letter');
select is(pg_temp.of_queue('work') -> 'pgq_retries_total', '2',
    'the last failure is not counted as a retry');
select is(pg_temp.of_queue('work') -> 'pgq_dead_messages', '2', 'both dead letters are shown');
select is(pg_temp.of_queue('work') -> 'pgq_oldest_dead_seconds', '60',
    'the age of the oldest dead letter is shown');
select pgq.replay('work', n => 1), pgq.discard('work');
select is(pg_temp.of_queue('work') -> 'pgq_replayed_messages_total', '1',
    'one dead letter is replayed');
select is(pg_temp.of_queue('work') -> 'pgq_discarded_messages_total', '1',
    'the other dead letter is discarded');
select is(pg_temp.of_queue('work') -> 'pgq_dead_messages', null, 'no dead letter is left');
select is(
    pg_temp.metric('pgq_dead_letters_total', '{"queue": "work", "reason": "processing_error"}'),
    1::float8, 'the counter of dead letters does not shrink');
select pgq.publish('empty', '1', expires_in => '1 s');
select t.advance('2 s');
call pgq.maintain();
select is(pg_temp.of_queue('empty') - 'pgq_published_messages_per_second'::text
    @> '{"pgq_expired_messages_total": 1, "pgq_dead_letters_total_expired": 1}', true,
    'expired messages are counted');

-- acknowledge the last message that timed out
select pgq.ack(max(lease_id)) from pgq.claim('work');

-- filters, leases without an end, listeners, staged messages
select count(*) from pgq.claim('work', '{"n": 1}');
select cmp_ok(pg_temp.metric('pgq_filter_tested_messages_total', '{"queue": "work"}'), '>',
    10::float8, 'messages that a filter has tested are counted');
select is(pg_temp.metric('pgq_filter_claims_total', '{"queue": "work"}'), 1::float8,
    'claims with a filter are counted');
select count(*) from pgq.claim('work', '{"type": 1}', 2);
select is(pg_temp.metric('pgq_filter_matched_messages_total', '{"queue": "work"}'), 1::float8,
    'messages that a filter has matched are counted');
select pgq.hold('work', 'job', n => 3);
select t.advance('1 h');
select is(pg_temp.of_queue('work') @> '{"pgq_unending_leases": 1, "pgq_unending_leased_messages": 3,
    "pgq_oldest_unending_lease_seconds": 3600}', true, 'a lease without an end is shown');
select pgq.wait_begin('empty', 'w');
select is(pg_temp.metric('pgq_waiters', '{"queue": "empty"}'), 1::float8, 'a listener is shown');
insert into pgq.staged (token, position, topic, payload, staged_at)
select gen_random_uuid(), 1, 'work', '1', pgq.now() - interval '2 h' from generate_series(1, 3);
select is(pg_temp.metric('pgq_staged_messages'), 3::float8, 'staged messages are counted');
select is(pg_temp.metric('pgq_oldest_staged_seconds'), 7200::float8,
    'the age of the oldest staged message is shown');

-- a counter never shrinks, whatever maintenance removes
create temp table before as
select name, labels, value from pgq.metrics() where kind = 'counter' and value > 0;
select cmp_ok((select count(*) from before), '>', 10::bigint,
    'there are more than ten counters to compare');
call pgq.maintain();
select t.advance('30 h');
call pgq.maintain();
select t.advance('30 h');
call pgq.maintain();
set constraints all immediate;
select t.advance('30 h');
call pgq.maintain();
select is((select count(*) from pgq.outcome), (select count(distinct (queue_id, event, reason))
    from pgq.outcome), 'maintenance leaves one row for each counter');
select is((select count(*) from pgq.filter), 0::bigint, 'maintenance removes unused filters');
select is_empty(
    $$select b.*, m.value from before b
      left join pgq.metrics() m on m.name = b.name and m.labels = b.labels
      where m.value is null or m.value < b.value$$, 'no counter has shrunk');
select pgq.drop_queue('empty', force => true);
select is((select count(*) from pgq.outcome o
           where not exists (select from pgq.queue q where q.queue_id = o.queue_id)), 0::bigint,
    'drop_queue removes the counters of a queue');
select pgq.create_queue('empty');
select is(pg_temp.of_queue('empty'), '{"pgq_counts_exact": 1}',
    'a new queue of the same name begins at zero');

-- eras
select cmp_ok(pg_temp.metric('pgq_era'), '>', 0::float8, 'the current era has a number');
select is((select count(*) from pgq.metrics() where name = 'pgq_era_bytes'), 6::bigint,
    'every slot of the log and of the audit log has a size');
select cmp_ok((select max(value) from pgq.metrics() where name = 'pgq_era_age_seconds'), '>',
    0::float8, 'an era has an age');
select isnt((select max(value) from pgq.metrics() where name = 'pgq_era_overdue_seconds'), null,
    'the delay of a rotation is shown');
insert into pgq.era as e (slot, number, started_at)
select s % 3, s, pgq.now() - (n - s + 1) * interval '26 h'
from (select pg_sequence_last_value('pgq.era_number') as n) x, generate_series(n - 1, n) s
on conflict (slot) do update
set number = excluded.number, started_at = excluded.started_at, emptied_at = null;
select is((select max(value) from pgq.metrics() where name = 'pgq_era_overdue_seconds'),
    7200::float8, 'a slot that is not emptied in time is overdue');
select is(pg_temp.metric('pgq_retention_seconds'), 86400::float8, 'the retention is shown');
select cmp_ok(pg_temp.metric('pgq_table_bytes', '{"table": "ready"}'), '>', 0::float8,
    'tables have sizes');

-- cost: no table that grows with the backlog is scanned sequentially, whatever the statistics
select pgq.create_queue('large', set_size => 1);
insert into pgq.message (topic, payload) select 'large', '1' from generate_series(1, 3000);
analyze pgq.ready, pgq.message, pgq.journal, pgq.dead_letter, pgq.scheduled;
create temp view scan as
select relname, seq_scan from pg_stat_xact_all_tables
where schemaname = 'pgq' and relname ~ '^(ready|scheduled|dead_letter|message_.|journal_.)$';
create temp table scanned as select * from scan;
select count(*) from pgq.metrics();
select set_eq('select * from scan', 'select * from scanned',
    'metrics() scans no large table sequentially');
select pgq.drop_queue('large', force => true);

-- who sees what
create role metrics_consumer;
create role metrics_monitor in role pg_monitor;
create role metrics_nobody;
select pgq.grant_queue('news', 'metrics_consumer', 'consume');
set role metrics_consumer;
select results_eq(
    $$select distinct labels ->> 'queue' from pgq.metrics() where labels ? 'queue'$$,
    $$values ('news')$$, 'a consumer sees the queues that it may consume');
select set_eq(
    $$select distinct name from pgq.metrics() where not labels ? 'queue'$$,
    array['pgq_oldest_snapshot_seconds', 'pgq_oldest_snapshot_transactions',
          'pgq_hidden_snapshots'],
    'a consumer sees only those metrics of the database that PostgreSQL shows to everybody');
set role metrics_monitor;
select set_eq(
    $$select distinct labels ->> 'queue' from pgq.metrics() where labels ? 'queue'$$,
    array['empty', 'news', 'work'], 'a member of pg_monitor sees all queues');
select is((select count(*) from pgq.metrics() where name = 'pgq_published_messages_total'),
    1::bigint, 'a member of pg_monitor sees the metrics of the database');
select throws_ok($$select * from pgq.queue_stats$$, '42501', null,
    'a member of pg_monitor cannot read queue_stats');
select throws_ok($$select pgq.claim('work')$$, '42501', null,
    'a member of pg_monitor cannot claim');
set role metrics_nobody;
select throws_ok('select pgq.metrics()', '42501', null, 'other roles cannot call metrics()');
reset role;

select * from finish();
rollback;
