-- The functions of pgmq check the rights that pgq.grant_queue gives.
begin;
select no_plan();
create extension pgq_pgmq;
create role pgmq_sender;
create role pgmq_reader;
create role pgmq_nobody;
select pgmq.create('orders');
select pgmq.create('secret');
select pgq.grant_queue('orders', 'pgmq_sender', 'publish');
select pgq.grant_queue('orders', 'pgmq_reader', 'consume');
grant usage on schema pgmq to pgmq_sender, pgmq_reader, pgmq_nobody;
grant execute on all routines in schema pgmq to pgmq_sender, pgmq_reader, pgmq_nobody;
select send as id from pgmq.send('orders', '1') \gset
select send as hidden from pgmq.send('secret', '1') \gset

select is(t.outcome('pgmq_sender', $$select pgmq.send('orders', '1')$$), 'ok', 'a sender may send');
select is(t.outcome('pgmq_sender', $$select pgmq.send_batch('orders', '{1}')$$), 'ok',
    'a sender may send batches');
select is(t.outcome('pgmq_reader', s), 'ok', 'a reader may: ' || s)
from unnest(array[
    $$select pgmq.read('orders', 1, 1)$$, $$select pgmq.pop('orders')$$,
    format($$select pgmq.delete('orders', %s)$$, :id), $$select pgmq.purge_queue('orders')$$,
    format($$select pgmq.archive('orders', %s)$$, :id), $$select pgmq.metrics('orders')$$,
    format($$select pgmq.set_vt('orders', %s, 5)$$, :id),
    $$select pgmq.read_grouped('orders', 1, 1)$$]) s;
select is(t.outcome(r, s), '42501', format('%s may not: %s', r, s))
from unnest(array['pgmq_sender', 'pgmq_reader', 'pgmq_nobody']) r,
     unnest(array[
    $$select pgmq.send('secret', '1')$$, $$select pgmq.read('secret', 1, 1)$$,
    $$select pgmq.pop('secret')$$, format($$select pgmq.delete('secret', %s)$$, :hidden),
    format($$select pgmq.archive('secret', %s)$$, :hidden), $$select pgmq.purge_queue('secret')$$,
    format($$select pgmq.set_vt('secret', %s, 5)$$, :hidden), $$select pgmq.metrics('secret')$$,
    $$select pgmq.read_grouped('secret', 1, 1)$$, $$select pgmq.drop_queue('orders')$$,
    $$select pgmq.bind_topic('a', 'orders')$$, $$select pgmq.enable_notify_insert('orders')$$,
    $$select pgmq.create('another')$$, 'select * from pgmq.archived']) s;
select is(t.answer('pgmq_reader', $$select string_agg(queue_name, ' ') from pgmq.list_queues()$$),
    'orders', 'a reader sees only its queues');
select is(t.answer('pgmq_reader', 'select count(*)::text from pgmq.metrics_all()'), '1',
    'a reader sees metrics of its queues only');
-- An id is valid only in its own queue.
select ok(not pgmq.delete('orders', :hidden), 'delete does not find a message of another queue');

select is_empty($$
    select p.oid::regprocedure from pg_proc p where p.pronamespace = 'pgmq'::regnamespace
    and (obj_description(p.oid, 'pg_proc') is null
         or p.prosqlbody is null
            and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false))$$,
    'every function is described and pins its search_path');
select is_empty($$
    select p.oid::regprocedure from pg_proc p where p.pronamespace = 'pgmq'::regnamespace
    and p.prosecdef and not coalesce('caller' = any (p.proargnames), false)
    and p.proname not in ('_created', '_dropped', '_notify',
                          'list_notify_insert_throttles')$$,
    'every function that runs as its owner takes the caller as an argument');
select * from finish();
rollback;
