-- Topics and notifications of pgmq.
begin;
select no_plan();
create extension pgq_pgmq;

select pgmq.create(q) from unnest(array['errors', 'all', 'logs']) q;
select lives_ok($$select pgmq.bind_topic('logs.*.error', 'errors'), pgmq.bind_topic('#', 'all'),
    pgmq.bind_topic('logs.#', 'logs'), pgmq.bind_topic('logs.#', 'logs'),
    pgmq.bind_topic('*.api.error', 'errors')$$, 'queues are bound, twice is once');
select results_eq($$select pattern, queue_name,
    compiled_regex from pgmq.test_routing('logs.api.error')$$,
    $$values ('#', 'all', '^.*$'), ('*.api.error', 'errors', E'^[^.]+\\.api\\.error$'),
             ('logs.#', 'logs', E'^logs\\..*$'), ('logs.*.error', 'errors',
        E'^logs\\.[^.]+\\.error$')$$,
    'what a key matches');
select is(pgmq.send_topic('logs.api.error', '{"n": 1}'), 3, 'each queue gets it once');
select is(pgmq.send_topic('logs.api', '{"n": 2}', '{"h": 1}', 0), 2, 'with headers and delay');
select is(pgmq.send_topic('logs', '{"n": 3}', 60), 1, 'a pattern with .# wants one more word');
select pgmq.unbind_topic('#', 'all');
select is(pgmq.send_topic('elsewhere', '{"n": 4}'), 0, 'nobody receives it, and that is no error');
select results_eq($$select queue_name, count(*) from pgmq.send_batch_topic('logs.api.error',
    array['1', '2']::jsonb[]) group by 1 order by 1$$, $$values ('errors', 2::bigint), ('logs',
        2)$$,
    'a batch returns ids for each queue');
select is((select count(*) from pgmq.q_errors), 3::bigint, 'the messages are there');
select results_eq($$select pattern, queue_name from pgmq.list_topic_bindings() order by 1$$,
    $$values ('*.api.error', 'errors'), ('logs.#', 'logs'), ('logs.*.error', 'errors')$$,
        'bindings');
select is((select count(*) from pgmq.list_topic_bindings('errors')), 2::bigint, 'of one queue');
select ok(pgmq.unbind_topic('logs.#', 'logs'), 'a binding is ended');
select ok(not pgmq.unbind_topic('logs.#', 'logs'), 'and then there is none');
select pgmq.drop_queue('errors');
select is_empty($$select * from pgmq.list_topic_bindings('errors')$$, 'bindings go with the queue');
select throws_ok(format('select pgmq.validate_routing_key(%L)', k), '22023', null, 'no key: ' || k)
from unnest(array['', '.a', 'a.', 'a..b', 'a!', 'a b', 'a.*', repeat('a', 256)]) k;
select throws_ok(format('select pgmq.validate_topic_pattern(%L)', p), '22023', null,
    'no pattern: ' || p)
from unnest(array['', '.a', 'a.', 'a..b', 'a.**', 'a.##', 'a.*#', 'a.#*', 'a b']) p;
select ok(pgmq.validate_routing_key(k), 'a key: ' || k)
from unnest(array['logs.error', 'app.user-service.auth', 'system_events.db.connection_failed']) k;
select ok(pgmq.validate_topic_pattern(p), 'a pattern: ' || p)
from unnest(array['logs.*', 'logs.#', '*.error', '#.error', 'app.*.#', '#', 'ord*']) p;
select throws_ok($$select pgmq.bind_topic('a.b', 'missing')$$, 'QU001', null,
    'no binding of no queue');

-- notifications
select pgmq.enable_notify_insert('all', 60000);
select results_eq($$select queue_name, throttle_interval_ms, last_notified_at = to_timestamp(0)
    from pgmq.list_notify_insert_throttles()$$, $$values ('all', 60000, true)$$, 'senders notify');
select pgmq.send('all', '1');
select last_notified_at as at from pgmq.list_notify_insert_throttles() \gset
select cmp_ok(:'at'::timestamptz, '>', to_timestamp(0), 'the first send does');
select pgmq.send('all', '1');
select is((select last_notified_at from pgmq.list_notify_insert_throttles()), :'at'::timestamptz,
    'the next one is within the interval');
select pgmq.update_notify_insert('all', 0);
select pgmq.send('all', '1');
select cmp_ok((select last_notified_at from pgmq.list_notify_insert_throttles()), '>',
    :'at'::timestamptz, 'without an interval each send does');
select throws_ok($$select pgmq.update_notify_insert('logs', 1)$$, '55000', null,
    'what does not notify cannot be changed');
select throws_ok($$select pgmq.enable_notify_insert('all', -1)$$, '22023', null,
    'no negative interval');
select pgmq.disable_notify_insert('all');
select is_empty('select * from pgmq.list_notify_insert_throttles()', 'no more');
select * from finish();
rollback;
