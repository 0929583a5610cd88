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
    null, 'take_staged fails if rows are missing');
insert into total
select (r ->> 0)::int, (r ->> 1)::numeric
from pgq.take_staged(array(select token from token where i = 1), 2) r;
select results_eq('select * from total order by n', 'values (1, 10.5), (2, null)',
    'take_staged returns the staged rows, which are inserted into a table');
select is_empty('select from pgq.staged', 'take_staged deletes the rows that it returns');

-- batches
select pgq.stream_claim('work', 'etl', 'one', 1, n => 4);
select throws_ok($$select pgq.commit_batch('q1 r 0')$$, '55000', null,
    'a reader that has read no batch cannot commit');
select throws_ok(format('select pgq.stream_read(%s)', a), '22023', null,
    format('stream_read refuses (%s)', a))
from unnest(array[
    $$'work', 'etl', 1, null$$, $$'work', 'etl', 1, ''$$, $$'work', 'etl', null, 'r'$$,
    $$'work', 'etl', 1, repeat('x', 201)$$]) a;
select pgq.stream_read('work', 'etl', 1, 'q1 r 0');
select pgq.stream_read('work', 'etl', 1, 'q1 r 0');
select pgq.stream_read('work', 'etl', 1, 'q1 s 0');
select is(pgq.commit_batch('q1 r 0', '{"total": 2}'), true, 'a reader commits its batch');
select is(pgq.commit_batch('q1 r 0'), false, 'a reader commits its batch once');
select is(pgq.commit_batch('q1 s 0'), false,
    'a batch that one reader has committed is not committed by another reader');
select is((select sum(size) from pgq.journal where event = 'ack'), 4::bigint,
    'the messages of a committed batch are acknowledged');
select results_eq(
    $$select finished, batch, size, committed_at = pgq.now(), wrote from pgq.streams
      where reader = 'q1 r 0'$$,
    $$values (1::bigint, 1::bigint, 4::bigint, true, '{"total": 2}'::jsonb)$$,
    'pgq.streams shows the committed batch');

-- checkpoints
select results_eq(
    $$select finished, bound_to, committed from pgq.stream_bind('work', 'etl', 'one', 'q2')$$,
    $$values (1::bigint, 'q2', 1::bigint)$$,
    'a new checkpoint continues after the last committed batch');
select lives_ok($$select pgq.stream_bind('work', 'etl', 'one', 'q1', 0)$$,
    'an older checkpoint is accepted too');
select pgq.stream_read('work', 'etl', 1, 'q1 t 0');
select is(pgq.commit_batch('q1 t 0'), false,
    'a batch that is processed again is not committed again');
select pgq.stream_claim('work', 'etl', 'one', 2, n => 4);
select pgq.stream_read('work', 'etl', 2, 'q1 t 1');
select pgq.stream_read('work', 'etl', 1, 'q1 t 1');
select is((select batch from pgq.lineage where reader = 'q1 t 1'), 2::bigint,
    'the last of several batches that a reader has read counts');
select is(pgq.commit_batch('q1 r 0'), false, 'an earlier reader does not commit the next batch');
select pgq.release((select lease_id from pgq.stream_batch('work', 'etl', 2)), '{5}');
select throws_ok($$select pgq.commit_batch('q1 t 1')$$, 'QU003', null,
    'a batch that has lost messages is not committed');
select is((select batch from pgq.stream), 1::bigint,
    'a batch that has lost messages is not finished');
select pgq.stream_read('work', 'etl', 2, 'q1 u 1');
select is(pgq.commit_batch('q1 u 1'), true,
    'a batch that is read again after it has lost messages is committed');
select pgq.stream_claim('work', 'etl', 'one', 3);
select pgq.stream_finish('work', 'etl', 'one', 3);
select throws_ok($$select pgq.stream_bind('work', 'etl', 'one', 'q4')$$, '55000', null,
    'a new checkpoint is refused if the last batch was finished without a commit');

-- two queues
select pgq.publish('next', '1'), pgq.publish('work', '11');
select pgq.stream_begin('next', 'etl', 'one', '1 h');
select pgq.stream_claim('next', 'etl', 'one', 1);
select pgq.stream_claim('work', 'etl', 'one', 4, n => 1);
select pgq.stream_read('next', 'etl', 1, 'q5 r 0');
select pgq.stream_read('work', 'etl', 4, 'q5 r 0');
select is(pgq.commit_batch('q5 r 0'), true, 'a query that reads two queues commits once');
select results_eq('select committed from pgq.stream order by queue_id', 'values (4::bigint), (1)',
    'the commit finishes the batches of both queues');

-- writers
select is(pgq.commit_batch(null, null, 'w', 1, 'q'), true,
    'commit_batch without a reader commits an epoch of a writer');
select is(pgq.commit_batch(null, null, 'w', 1, 'q'), false,
    'an epoch of a writer is committed once');
select throws_ok($$select pgq.commit_batch(null, null, 'w', 2, 'p')$$, '55000', null,
    'an epoch of another query is refused');
select throws_ok($$select pgq.commit_batch(null, null, 'w')$$, '55000', null,
    'a writer without an epoch is refused');

-- what is kept
create or replace function pgq._limit(name text) returns int language sql immutable return 2;
select pgq.stream_read('work', 'etl', 6, 'q6 r 0');
select is((select min(batch) from pgq.lineage l join pgq.queue q using (queue_id)
           where q.name = 'work'), 4::bigint, 'old lineage is deleted');
select is_empty($$select * from pgq.check()$$, 'nothing is broken');
select pgq.drop_queue('work', force => true);
select is((select count(*) from pgq.lineage), 1::bigint, 'dropping a queue deletes its lineage');
select * from finish();
rollback;
