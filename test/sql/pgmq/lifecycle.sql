-- The functions of pgmq on queues of pgq, as pgmq's own tests call them.
begin;
select no_plan();
create extension pgq_pgmq;
select t.at(now());

-- queues
select lives_ok($$select pgmq.create('orders')$$, 'a queue is created');
select lives_ok($$select pgmq.create('orders')$$, 'creating a queue again is accepted');
select lives_ok($$select pgmq.create_unlogged('fast')$$, 'an unlogged queue is accepted');
select lives_ok($$select pgmq.create_partitioned('wide', '5 s', '10 s')$$,
    'a partitioned queue is accepted');
select lives_ok($$select pgmq.create_non_partitioned('plain')$$,
    'a queue that is not partitioned is accepted');
select results_eq($$select queue_name::text, is_partitioned, is_unlogged from pgmq.list_queues()$$,
    $$values ('orders', false, false), ('fast', false, true), ('wide', true, false),
             ('plain', false, false)$$, 'list_queues shows how each queue was created');
select results_eq($$select queue_name from pgmq.meta$$,
    $$select queue_name from pgmq.list_queues()$$,
    'the view pgmq.meta shows the same queues');
select throws_ok($$select pgmq.create(repeat('a', 48))$$, '22023', null,
    'a name of 48 characters is too long');
select lives_ok($$select pgmq.create(repeat('a', 47))$$, 'a name of 47 characters is accepted');
select throws_ok($$select pgmq.create('dollar$-signed')$$, '22023', null,
    'a dollar sign in a name is refused');
select lives_ok($$select pgmq.create('queue-hyphened'), pgmq.create('QueueCased')$$,
    'hyphens and capitals in a name are accepted');
select pgq.create_queue('own', max_attempts => 2);
select lives_ok($$select pgmq.create('own')$$, 'a queue that pgq.create_queue made is accepted');
select is((select max_attempts from pgq.queue where name = 'own'), 2,
    'a queue that pgq.create_queue made keeps its policy');
select ok(pgmq.drop_queue('wide'), 'an existing queue is dropped');
select ok(not pgmq.drop_queue('wide'), 'dropping a queue a second time returns false');
select ok(pgmq.drop_queue('fast', true), 'the old form of drop_queue is accepted');
select ok(to_regclass('pgmq.q_wide') is null, 'the view of a dropped queue is gone');
select is(pgmq.format_table_name('Cat-Dog', 'q'), 'q_cat-dog',
    'format_table_name returns the name of the view of a queue');
select throws_ok($$select pgmq.format_table_name('a;b', 'q')$$, '22023', null,
    'SQL in a name is refused');

-- send, read
select send as one from pgmq.send('orders', '{"hello": "world"}') \gset
select send as two from pgmq.send('orders', '{"n": 2}', '{"type": "paid"}'::jsonb) \gset
select send as late from pgmq.send('orders', '{"n": 3}', 60) \gset
select send as later from pgmq.send('orders', '{"n": 4}', '{"a": {"b": [1]}}', pgq.now() + '2 min')
\gset
select is((select count(*) from pgmq.q_orders), 4::bigint, 'q_<queue> shows what a queue holds');
select results_eq(
    $$select msg_id, read_ct, last_read_at, vt, message, headers from pgmq.read('orders', 30, 1)$$,
    format($$values (%s::bigint, 1, pgq.now(), pgq.now() + '30 s'::interval,
             '{"hello": "world"}'::jsonb, null::jsonb)$$, :one),
    'read takes the oldest message and hides it for vt seconds');
select results_eq($$select msg_id, headers from pgmq.read('orders', 5, 10)$$,
    format($$values (%s::bigint, '{"type": "paid"}'::jsonb)$$, :two),
    'the next read takes the rest that is visible');
select is_empty($$select * from pgmq.read('orders', 30, 10)$$,
    'a read returns nothing if no message is visible');
select t.advance('6 s');
select results_eq($$select msg_id, read_ct from pgmq.read('orders', 30, 10)$$,
    format($$values (%s::bigint, 2)$$, :two),
    'a message that was not deleted in time is read again');
select t.advance('2 min');
select results_eq($$select msg_id, read_ct, headers from pgmq.read('orders', 0, 10) order by 1$$,
    format($$values (%s::bigint, 2, null::jsonb), (%s, 3, '{"type": "paid"}'), (%s, 1, null),
             (%s, 1, '{"a": {"b": [1]}}')$$, :one, :two, :late, :later),
    'one read returns all messages, with nested headers as they were sent');
select t.advance('1 ms');
select is((select count(*) from pgmq.read('orders', 30, 10)), 4::bigint,
    'messages that were read with a vt of 0 are visible 1 ms later');

-- delete, archive
select ok(pgmq.delete('orders', :one), 'a message is deleted by its id');
select ok(not pgmq.delete('orders', :one), 'deleting a message a second time returns false');
select ok(pgmq.archive('orders', :two), 'a message is archived');
select results_eq($$select pgmq.archive('orders', array[$$ || :late || $$, $$ || :two || $$, -3])$$,
    format('values (%s::bigint)', :late),
    'archive returns the ids of those messages that are in the queue');
select results_eq($$select msg_id, read_ct, message, headers from pgmq.a_orders order by 1$$,
    format($$values (%s::bigint, 4, '{"n": 2}'::jsonb, '{"type": "paid"}'::jsonb),
             (%s, 2, '{"n": 3}', null)$$, :two, :late), 'a_<queue> shows the archive');
select results_eq($$select msg_id from pgmq.q_orders$$, format('values (%s::bigint)', :later),
    'the queue still has the other message');
delete from pgmq.a_orders where msg_id = :late;
select is((select count(*) from pgmq.a_orders), 1::bigint,
    'messages can be deleted from the archive');
select is_empty($$select pgmq.delete('orders', '{}'::bigint[])$$,
    'delete without ids returns nothing');

-- Messages that nobody has read can be deleted too, out of the middle of a set.
select array_agg(i) as ids from pgmq.send_batch('plain',
    array['1', '2', '3', '4', '5']::jsonb[], array['{"i": 1}', null, null, null,
        '{"i": 5}']::jsonb[]
) i \gset
select results_eq(
    format('select pgmq.delete(%L, %L::bigint[])', 'plain', (:'ids'::bigint[])[2:3]),
    format('select unnest(%L::bigint[])', (:'ids'::bigint[])[2:3]), 'two of five are deleted');
select is(t.held('plain', 'ready'), '1 4 5', 'the others stay ready');
select results_eq($$select message, headers from pgmq.pop('plain', 2)$$,
    $$values ('1'::jsonb, '{"i": 1}'::jsonb), ('4', null)$$, 'pop reads and deletes');
select results_eq($$select message, read_ct from pgmq.pop('plain')$$, $$values ('5'::jsonb, 0)$$,
    'pop takes one message by default');
select is_empty($$select * from pgmq.pop('plain')$$, 'pop from an empty queue returns nothing');
select results_eq($$select pgmq.send('plain', null::jsonb) is not null$$, 'values (true)',
    'a message may be null');
select results_eq($$select message from pgmq.read('plain', 1, 1)$$, 'values (null::jsonb)',
    'a null message is read as null');
select throws_ok($$select pgmq.send_batch('plain', '{}')$$, '22023', null,
    'an empty batch is refused');
select throws_ok($$select pgmq.send_batch('plain', array['1']::jsonb[], array[]::jsonb[])$$,
    '22023',
    null, 'a batch needs headers for each message or for none');
select is(pgmq.purge_queue('plain'), 1::bigint,
    'purge_queue deletes messages that are being read too');
select is((select count(*) from pgmq.q_plain), 0::bigint, 'a purged queue is empty');

-- One message of a batch is deleted, archived or hidden; the others stay with their reader.
select pgmq.create('batch');
select array_agg(i) as ids from pgmq.send_batch('batch', '{1,2,3,4,5}') i \gset
select is((select count(*) from pgmq.read('batch', 30, 5)), 5::bigint, 'five are read at once');
select ok(pgmq.delete('batch', (:'ids'::bigint[])[2]), 'one of them is deleted');
select ok(pgmq.archive('batch', (:'ids'::bigint[])[3]), 'one is archived');
select is((select count(*) from pgmq.set_vt('batch', (:'ids'::bigint[])[4], 60)), 1::bigint,
    'one is hidden for longer');
select is(t.held('batch', 'leased'), '1 5', 'the others are still held');
select is(t.held('batch', 'retrying'), '4', 'the hidden message waits');
select t.advance('31 s');
select results_eq($$select message from pgmq.read('batch', 60, 5) order by 1$$,
    $$values ('1'::jsonb), ('5')$$, 'the others are read again when their vt is over');

-- set_vt
select pgmq.create('vt');
select is_empty($$select * from pgmq.set_vt('vt', 9999, 0)$$,
    'set_vt of an unknown message returns nothing');
select send as one from pgmq.send('vt', '"a"') \gset
select send as two from pgmq.send('vt', '"b"') \gset
select results_eq(format($$select msg_id, read_ct, vt from pgmq.set_vt('vt', %s, 100)$$, :one),
    format($$values (%s::bigint, 0, pgq.now() + '100 s'::interval)$$, :one),
    'set_vt hides a message that nobody has read');
select results_eq($$select msg_id from pgmq.read('vt', 10, 5)$$, format('values (%s::bigint)',
    :two),
    'read does not return a hidden message');
select results_eq(format($$select msg_id from pgmq.set_vt('vt', array[%s, %s], 0) order by 1$$,
    :one, :two), format('values (%s::bigint), (%s)', :one, :two),
    'set_vt makes both messages visible');
select results_eq($$select msg_id, read_ct from pgmq.read('vt', 10, 5) order by 1$$,
    format('values (%s::bigint, 1), (%s, 2)', :one, :two),
    'both messages are read, with their own read counts');
select is((select vt from pgmq.set_vt('vt', :two, pgq.now() + '1 h')), pgq.now() + '1 h',
    'set_vt hides a message for longer after it was read');
select t.advance('30 min');
select results_eq($$select msg_id from pgmq.read('vt', 1, 5)$$, format('values (%s::bigint)', :one),
    'a read half an hour later does not return the hidden message');
select ok(pgmq.delete('vt', :two), 'a hidden message can be deleted');
select t.advance('1 h');
select ok(pgmq.archive('vt', :one), 'a message whose vt is over can be archived');

-- condition
select pgmq.create('condition');
select pgmq.send_batch('condition', array['{"a": 1, "b": {"c": "x", "d": 2}}', '{"a": [1]}',
    '{"a": 1, "b": {"c": "y"}}', '{"a": null}', '{"a": [1, 2], "$x": true}']::jsonb[]);
create function pg_temp.contains(condition jsonb) returns boolean language plpgsql as $$
declare
    v_read bigint[] := array(select msg_id from pgmq.read('condition', 5, 10, condition));
begin
    perform pgmq.set_vt('condition', v_read, 0);
    return v_read = array(
        select h.msg_id from pgmq.q_condition h where h.message @> condition order by 1);
end
$$;
select ok(pg_temp.contains(c), 'read finds what @> finds: ' || c::text)
from unnest(array['{"a": 1}', '{"a": 1, "b": {"c": "x"}}', '{"a": [1]}', '{"a": null}', '{"b": {}}',
    '{"a": [2]}', '{"$x": true}', '{"c": 1}', '{"b": {"c": "y"}}', '{}']::jsonb[]) c;
select throws_ok($$select * from pgmq.read('condition', 1, 1, '[1]')$$, '22023', null,
    'a condition must be an object');

-- metrics
select pgmq.create('numbers');
select pgmq.send_batch('numbers', array['1', '2', '3', '4', '5']::jsonb[]);
select pgmq.send_batch('numbers', array['6', '7']::jsonb[], 10);
select pgmq.archive('numbers', (select min(msg_id) from pgmq.q_numbers));
select is((select count(*) from pgmq.read('numbers', 30, 2)), 2::bigint, 'two messages are read');
select results_eq(
    $$select queue_name, queue_length, total_messages, queue_visible_length,
        newest_msg_age_sec >= 0,
      default_partition_length from pgmq.metrics('numbers')$$,
    $$values ('numbers', 6::bigint, 7::bigint, 2::bigint, true, null::bigint)$$,
        'metrics counts the messages of a queue');
select is((select count(*) from pgmq.metrics_all()), (select count(*) from pgmq.list_queues()),
    'metrics_all has a row for each queue');
select throws_ok($$select pgmq.metrics('missing')$$, 'QU001', null,
    'metrics of an unknown queue is an error');

select lives_ok($$select pgmq.create_fifo_index('numbers'), pgmq.create_fifo_indexes_all(),
    pgmq.convert_archive_partitioned('numbers'), pgmq.detach_archive('numbers')$$,
    'functions that pgmq needs and pgq does not are accepted');
-- Messages of other queues cost nothing: no call scans the whole log.
select pgmq.create('long'), pgmq.create('short');
select count(*)
from generate_series(1, 40), pgmq.send_batch('long', array_fill('1'::jsonb, '{1000}'));
select count(*) from generate_series(1, 200) i, pgmq.send('short', to_jsonb(i));
analyze pgq.message, pgq.ready, pgq.lease, pgq.scheduled;
select sum(seq_tup_read + idx_tup_fetch) as before from pg_stat_xact_all_tables
where relname ~ '^message' \gset
select is((select count(*) from pgmq.q_short), 200::bigint,
    'the view of a short queue shows its messages');
select is((select count(*) from pgmq.read_grouped('short', 30, 5)), 5::bigint,
    'read_grouped takes five messages of the short queue');
select is((select count(*) from pgmq.archive('short', array(select msg_id from pgmq.q_short))),
    200::bigint, 'archive takes all messages of the short queue');
select cmp_ok((select sum(seq_tup_read + idx_tup_fetch) - :before from pg_stat_xact_all_tables
               where relname ~ '^message'), '<=', 2000::numeric,
    'these calls read few messages of other queues');
select is_empty('select * from pgq.check()', 'the queues are sound');
select * from finish();
rollback;
