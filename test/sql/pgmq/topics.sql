-- Topics and notifications of pgmq.
begin;
select no_plan();
create extension pgq_pgmq;

select pgmq.create(q) from unnest(array['errors', 'all', 'logs']) q;
select lives_ok($$select pgmq.bind_topic('logs.*.error', 'errors'), pgmq.bind_topic('#', 'all'),
    pgmq.bind_topic('logs.#', 'logs'), pgmq.bind_topic('logs.#', 'logs'),
    pgmq.bind_topic('*.api.error', 'errors')$$,
    'queues are bound to topics, and a second binding is accepted');
select results_eq($$select pattern, queue_name,
    compiled_regex from pgmq.test_routing('logs.api.error')$$,
    $$values ('#', 'all', '^.*$'), ('*.api.error', 'errors', E'^[^.]+\\.api\\.error$'),
             ('logs.#', 'logs', E'^logs\\..*$'), ('logs.*.error', 'errors',
        E'^logs\\.[^.]+\\.error$')$$,
    'test_routing shows the patterns that match a key');
select is(pgmq.send_topic('logs.api.error', '{"n": 1}'), 3,
    'every queue that matches gets a message once');
select is(pgmq.send_topic('logs.api', '{"n": 2}', '{"h": 1}', 0), 2,
    'send_topic accepts headers and a delay');
select is(pgmq.send_topic('logs', '{"n": 3}', 60), 1,
    'the pattern logs.# does not match the key logs');
select pgmq.unbind_topic('#', 'all');
select is(pgmq.send_topic('elsewhere', '{"n": 4}'), 0,
    'a topic that no queue receives is no error');
select results_eq($$select queue_name, count(*) from pgmq.send_batch_topic('logs.api.error',
    array['1', '2']::jsonb[]) group by 1 order by 1$$, $$values ('errors', 2::bigint), ('logs',
        2)$$,
    'a batch returns ids for each queue');
select is((select count(*) from pgmq.q_errors), 3::bigint, 'the queue has its messages');
select results_eq($$select pattern, queue_name from pgmq.list_topic_bindings() order by 1$$,
    $$values ('*.api.error', 'errors'), ('logs.#', 'logs'), ('logs.*.error', 'errors')$$,
        'list_topic_bindings shows all bindings');
select is((select count(*) from pgmq.list_topic_bindings('errors')), 2::bigint,
    'list_topic_bindings shows the bindings of one queue');
select ok(pgmq.unbind_topic('logs.#', 'logs'), 'a binding is removed');
select ok(not pgmq.unbind_topic('logs.#', 'logs'),
    'removing a binding a second time returns false');
select pgmq.drop_queue('errors');
select is_empty($$select * from pgmq.list_topic_bindings('errors')$$,
    'drop_queue removes the bindings of the queue');
select throws_ok(format('select pgmq.validate_routing_key(%L)', k), '22023', null,
    'an invalid routing key is refused: ' || k)
from unnest(array['', '.a', 'a.', 'a..b', 'a!', 'a b', 'a.*', repeat('a', 256)]) k;
select throws_ok(format('select pgmq.validate_topic_pattern(%L)', p), '22023', null,
    'an invalid pattern is refused: ' || p)
from unnest(array['', '.a', 'a.', 'a..b', 'a.**', 'a.##', 'a.*#', 'a.#*', 'a b']) p;
select ok(pgmq.validate_routing_key(k), 'a valid routing key is accepted: ' || k)
from unnest(array['logs.error', 'app.user-service.auth', 'system_events.db.connection_failed']) k;
select ok(pgmq.validate_topic_pattern(p), 'a valid pattern is accepted: ' || p)
from unnest(array['logs.*', 'logs.#', '*.error', '#.error', 'app.*.#', '#', 'ord*']) p;
select throws_ok($$select pgmq.bind_topic('a.b', 'missing')$$, 'QU001', null,
    'binding an unknown queue is an error');

-- notifications
select pgmq.enable_notify_insert('all', 60000);
select results_eq($$select queue_name, throttle_interval_ms, last_notified_at = to_timestamp(0)
    from pgmq.list_notify_insert_throttles()$$, $$values ('all', 60000, true)$$,
    'notifications are enabled, and none was sent yet');
select pgmq.send('all', '1');
select last_notified_at as at from pgmq.list_notify_insert_throttles() \gset
select cmp_ok(:'at'::timestamptz, '>', to_timestamp(0), 'the first send notifies');
select pgmq.send('all', '1');
select is((select last_notified_at from pgmq.list_notify_insert_throttles()), :'at'::timestamptz,
    'a send within the interval does not notify');
select pgmq.update_notify_insert('all', 0);
select pgmq.send('all', '1');
select cmp_ok((select last_notified_at from pgmq.list_notify_insert_throttles()), '>',
    :'at'::timestamptz, 'every send notifies if the interval is 0');
select throws_ok($$select pgmq.update_notify_insert('logs', 1)$$, '55000', null,
    'the interval of a queue without notifications cannot be changed');
select throws_ok($$select pgmq.enable_notify_insert('all', -1)$$, '22023', null,
    'a negative interval is refused');
select pgmq.disable_notify_insert('all');
select is_empty('select * from pgmq.list_notify_insert_throttles()', 'notifications are disabled');
select * from finish();
rollback;
