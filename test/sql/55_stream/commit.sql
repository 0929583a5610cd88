-- One commit: a batch of a stream is finished in the transaction that writes its results.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work');
select pgq.create_queue('next');
select pgq.publish_batch('work', array(select to_jsonb(i) from generate_series(1, 10) i));
create temp table total (n int primary key, amount numeric);
create temp table token as
select i, gen_random_uuid() as token from generate_series(1, 9) i;
create function pg_temp.stage(which int, variadic payloads text[]) returns uuid[]
language plpgsql as $$
begin
    insert into pgq.staged (token, position, topic, payload)
    select t.token, p.i, 'next', p.payload::jsonb
    from token t, unnest(payloads) with ordinality p (payload, i) where t.i = which;
    return array(select t.token from token t where t.i = which);
end
$$;
select pgq.stream_begin('work', 'etl', 'one', '1 h');
select pgq.stream_bind('work', 'etl', 'one', 'q1');

-- rows
select pg_temp.stage(1, '[1, "10.5"]', '[2, null]');
select throws_ok($$select pgq.take_staged(array(select token from token where i = 1), 3)$$, '55000',
    null, 'rows that are missing are noticed');
insert into total
select (r ->> 0)::int, (r ->> 1)::numeric
from pgq.take_staged(array(select token from token where i = 1), 2) r;
select results_eq('select * from total order by n', 'values (1, 10.5), (2, null)',
    'staged rows go into a table');
select is_empty('select from pgq.staged', 'once');

-- batches
select pgq.stream_claim('work', 'etl', 'one', 1, n => 4);
select throws_ok($$select pgq.commit_batch('q1 r 0')$$, '55000', null,
    'who has read nothing has nothing to commit');
select throws_ok(format('select pgq.stream_read(%s)', a), '22023', null, format('not (%s)', a))
from unnest(array[
    $$'work', 'etl', 1, null$$, $$'work', 'etl', 1, ''$$, $$'work', 'etl', null, 'r'$$,
    $$'work', 'etl', 1, repeat('x', 201)$$]) a;
select pgq.stream_read('work', 'etl', 1, 'q1 r 0');
select pgq.stream_read('work', 'etl', 1, 'q1 r 0');
select pgq.stream_read('work', 'etl', 1, 'q1 s 0');
select is(pgq.commit_batch('q1 r 0', '{"total": 2}'), true, 'a reader commits its batch');
select is(pgq.commit_batch('q1 r 0'), false, 'once');
select is(pgq.commit_batch('q1 s 0'), false, 'whoever else has read it');
select is((select sum(size) from pgq.journal where event = 'ack'), 4::bigint,
    'its messages are acknowledged');
select results_eq(
    $$select finished, batch, size, committed_at = pgq.now(), wrote from pgq.streams
      where reader = 'q1 r 0'$$,
    $$values (1::bigint, 1::bigint, 4::bigint, true, '{"total": 2}'::jsonb)$$, 'it is noted');

-- checkpoints
select results_eq(
    $$select finished, bound_to, committed from pgq.stream_bind('work', 'etl', 'one', 'q2')$$,
    $$values (1::bigint, 'q2', 1::bigint)$$, 'a new checkpoint goes on behind what is committed');
select lives_ok($$select pgq.stream_bind('work', 'etl', 'one', 'q1', 0)$$,
    'and so does an old one');
select pgq.stream_read('work', 'etl', 1, 'q1 t 0');
select is(pgq.commit_batch('q1 t 0'), false, 'a batch that is done again commits nothing');
select pgq.stream_claim('work', 'etl', 'one', 2, n => 4);
select pgq.stream_read('work', 'etl', 2, 'q1 t 1');
select pgq.stream_read('work', 'etl', 1, 'q1 t 1');
select is((select batch from pgq.lineage where reader = 'q1 t 1'), 2::bigint,
    'of several batches the last one counts');
select is(pgq.commit_batch('q1 r 0'), false, 'a reader of before does not commit the next batch');
select pgq.release((select lease_id from pgq.stream_batch('work', 'etl', 2)), '{5}');
select throws_ok($$select pgq.commit_batch('q1 t 1')$$, 'QU003', null,
    'a batch that has lost messages is not committed');
select is((select batch from pgq.stream), 1::bigint, 'nor finished');
select pgq.stream_read('work', 'etl', 2, 'q1 u 1');
select is(pgq.commit_batch('q1 u 1'), true, 'read again it is');
select pgq.stream_claim('work', 'etl', 'one', 3);
select pgq.stream_finish('work', 'etl', 'one', 3);
select throws_ok($$select pgq.stream_bind('work', 'etl', 'one', 'q4')$$, '55000', null,
    'if the last batch was not committed a new checkpoint is refused');

-- two queues
select pgq.publish('next', '1'), pgq.publish('work', '11');
select pgq.stream_begin('next', 'etl', 'one', '1 h');
select pgq.stream_claim('next', 'etl', 'one', 1);
select pgq.stream_claim('work', 'etl', 'one', 4, n => 1);
select pgq.stream_read('next', 'etl', 1, 'q5 r 0');
select pgq.stream_read('work', 'etl', 4, 'q5 r 0');
select is(pgq.commit_batch('q5 r 0'), true, 'a query that reads two queues');
select results_eq('select committed from pgq.stream order by queue_id', 'values (4::bigint), (1)',
    'commits both');

-- writers
select is(pgq.commit_batch(null, null, 'w', 1, 'q'), true, 'anything else is an epoch of a writer');
select is(pgq.commit_batch(null, null, 'w', 1, 'q'), false, 'once');
select throws_ok($$select pgq.commit_batch(null, null, 'w', 2, 'p')$$, '55000', null,
    'of one query');
select throws_ok($$select pgq.commit_batch(null, null, 'w')$$, '55000', null, 'with a number');

-- what is kept
create or replace function pgq._limit(name text) returns int language sql immutable return 2;
select pgq.stream_read('work', 'etl', 6, 'q6 r 0');
select is((select min(batch) from pgq.lineage l join pgq.queue q using (queue_id)
           where q.name = 'work'), 4::bigint, 'old lineage is forgotten');
select is_empty($$select * from pgq.check()$$, 'all is sound');
select pgq.drop_queue('work', force => true);
select is((select count(*) from pgq.lineage), 1::bigint, 'and goes with its queue');
select * from finish();
rollback;
