-- Streams: numbered batches under a name that has one owner at a time.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '30 s');
select pgq.publish_batch('work', array(select to_jsonb(i) from generate_series(1, 10) i));
create function pg_temp.batch(number bigint, n int default 4, owner text default 'one')
returns text language plpgsql as $$
begin
    return (select string_agg(m.payload #>> '{}', ' ' order by m.id)
            from pgq.stream_claim('work', 'etl', batch.owner, batch.number, n => batch.n) c
            cross join lateral pgq.leased(c.lease_id) m);
end
$$;

-- names
select throws_ok(format('select pgq.stream_begin(%s)', a), '22023', null,
    format('stream_begin refuses (%s)', a))
from unnest(array[
    $$'work', '', 'one'$$, $$'work', null, 'one'$$, $$'work', 'etl', null$$,
    $$'work', 'etl', 'one', '0'$$, $$'work', 'etl', 'one', null$$,
    $$'work', 'etl', 'one', '1 s', '-1 s'$$, $$'work', repeat('x', 201), 'one'$$]) a;
select throws_ok($$select pgq.stream_begin('nowhere', 'etl', 'one')$$, 'QU001', null,
    'a stream needs a queue');
select throws_ok($$select pgq.stream_claim('work', 'etl', 'one', 1)$$, '55006', null,
    'stream_claim fails before stream_begin');
select is(pgq.stream_begin('work', 'etl', 'one', '10 s'), 0::bigint,
    'a new stream has no finished batch');
select is(pgq.stream_begin('work', 'etl', 'one', '10 s'), 0::bigint,
    'the owner of a stream can call stream_begin again');
select throws_ok($$select pgq.stream_begin('work', 'etl', 'two')$$, '55006', null,
    'another owner cannot begin the same stream');
select matches(t.hint_of($$select pgq.stream_begin('work', 'etl', 'two')$$), 'own',
    'the error for another owner has a hint');
select is(pgq.stream_begin('work', 'other', 'two'), 0::bigint,
    'another owner can begin another stream');

-- batches
select is(pg_temp.batch(1), '1 2 3 4', 'a batch is claimed');
select is(pg_temp.batch(1, 9), '1 2 3 4',
    'a second claim of the same batch gets the same messages');
select results_eq($$select size from pgq.stream_batch('work', 'etl', 1)$$, 'values (4::bigint)',
    'stream_batch finds a claimed batch');
select is_empty($$select from pgq.stream_batch('work', 'etl', 2)$$,
    'stream_batch does not find a batch that was not claimed');
select is(pg_temp.batch(2), '5 6 7 8', 'the next batch gets the next messages');
select is_empty($$select from pgq.stream_batch('work', 'etl', 1)$$,
    'the claim of the next batch finishes the batch before');
select is((select sum(size) from pgq.journal where event = 'ack'), 4::bigint,
    'the messages of a finished batch are acknowledged');
select throws_ok('select pg_temp.batch(1)', 'QU003', null,
    'a finished batch cannot be claimed again');
select throws_ok('select pg_temp.batch(null)', 'QU003', null, 'a batch needs a number');
select is(pgq.stream_finish('work', 'etl', 'one', 2), 4, 'stream_finish finishes the last batch');
select is(pgq.stream_finish('work', 'etl', 'one', 2), 0, 'stream_finish finishes a batch once');
select is(pgq.stream_finish('work', 'etl', 'one', null), 0,
    'stream_finish without a number finishes nothing');
select is(pg_temp.batch(3), '9 10', 'the last batch of a queue can be smaller');
select is(pg_temp.batch(4), null, 'an empty queue gives no batch');
select is(pgq.stream_begin('work', 'etl', 'one', '10 s'), 3::bigint,
    'stream_begin returns the last finished batch');

-- owners
select pgq.publish_batch('work', array(select to_jsonb(i) from generate_series(11, 20) i));
select is(pg_temp.batch(4), '11 12 13 14', 'the owner of a stream claims a batch');
select t.advance('11 s');
select is(pgq.stream_begin('work', 'etl', 'two', '10 s'), 3::bigint,
    'another owner can begin a stream whose owner is silent');
select throws_ok('select pg_temp.batch(4)', '55006', null, 'the previous owner cannot claim');
select throws_ok($$select pgq.stream_finish('work', 'etl', 'one', 4)$$, '55006', null,
    'the previous owner cannot finish a batch');
select throws_ok($$select pgq.stream_begin('work', 'etl', 'one', '10 s')$$, '55006', null,
    'the previous owner cannot begin the stream again');
select is(pg_temp.batch(4, owner => 'two'), '11 12 13 14',
    'the new owner gets the unfinished batch');
select is(pgq.stream_end('work', 'etl', 'one'), false,
    'only the owner can end its ownership of a stream');
select is(pgq.stream_end('work', 'etl', 'two'), true,
    'the owner of a stream can end its ownership');
select is(pgq.stream_begin('work', 'etl', 'three', '10 s'), 3::bigint,
    'another owner can begin the stream right after the ownership has ended');
select is(pg_temp.batch(4, owner => 'three'), '11 12 13 14',
    'the third owner gets the unfinished batch');

-- leases
select pgq.stream_finish('work', 'etl', 'three', 4);
select pgq.stream_claim('work', 'etl', 'three', 5, n => 2, lease => '20 s');
select t.advance('15 s');
select pgq.stream_begin('work', 'etl', 'three', '10 s', lease => '20 s');
select t.advance('15 s');
select is(t.take('work', n => 100), '17 18 19 20', 'stream_begin extends the lease of the batch');
select is((select size from pgq.stream_batch('work', 'etl', 5)), 2::bigint,
    'the extended lease holds the messages of the batch');
select t.advance('6 s');
select isnt(t.take('work', n => 1), null, 'a lease that is not extended expires');
select is_empty($$select from pgq.stream_batch('work', 'etl', 5)$$,
    'a batch whose lease has expired is lost');
select is(pgq.stream_finish('work', 'etl', 'three', 5), 0,
    'finishing a lost batch acknowledges nothing');

-- queries
select pgq.stream_begin('work', 'tied', 'one', '1 h');
select results_eq($$select finished from pgq.stream_bind('work', 'tied', 'one', 'q1')$$,
    'values (0::bigint)', 'a new stream is bound to a query');
select results_eq($$select finished, bound_to from pgq.stream_bind('work', 'tied', 'one', 'q2')$$,
    $$values (0::bigint, 'q1')$$,
    'stream_bind returns the query that was bound before while no batch is finished');
select pgq.stream_finish('work', 'tied', 'one', 1);
select results_eq($$select finished from pgq.stream_bind('work', 'tied', 'one', 'q1', 1)$$,
    'values (1::bigint)', 'the query of a stream can bind again with its checkpoint');
select throws_ok($$select pgq.stream_bind('work', 'tied', 'one', 'q3')$$, '55000', null,
    'a new checkpoint is refused after a batch is finished');
select matches(t.hint_of($$select pgq.stream_bind('work', 'tied', 'one', 'q3')$$),
    'newCheckpoint', 'the error for a new checkpoint has a hint at newCheckpoint');
select throws_ok($$select pgq.stream_bind('work', 'tied', 'one', 'q2', 1)$$, '55000', null,
    'the checkpoint of another query is refused');
select throws_ok($$select pgq.stream_bind('work', 'tied', 'two', 'q1', 1)$$, '55006', null,
    'only the owner of a stream can bind it');
select results_eq(
    $$select finished, stream_id from pgq.stream_bind('work', 'tied', 'one', 'q3', anew => true)$$,
    $$select 1::bigint, stream_id from pgq.stream where consumer = 'tied'$$,
    'a new checkpoint is accepted with anew');
select is((select query from pgq.stream where consumer = 'tied'), 'q3',
    'the stream is bound to the query that starts anew');
select lives_ok($$select pgq.stream_bind('work', 'tied', 'one', batch => 1)$$,
    'stream_bind accepts a call without a query');

-- a batch number far ahead of the claimed ones
select is(pgq.stream_finish('work', 'etl', 'three', 1000000000000), 0,
    'finishing a number far ahead acknowledges nothing');
select is_empty($$select * from pgq.check()$$, 'nothing is broken');

-- check, drop
update pgq.stream set batch = 0 where consumer = 'etl';
select pgq.nack(lease_id, delay => '0') from pgq.leases;
select t.advance('1 s');
select isnt(pg_temp.batch(7, owner => 'three'), null,
    'a batch can be claimed after a jump of numbers');
update pgq.stream set batch = 7 where consumer = 'etl';
select is((select count(*) from pgq.check()
           where problem = 'a stream holds a batch that it has finished'), 1::bigint,
    'pgq.check() finds a finished batch that is still claimed');
update pgq.stream set batch = 0 where consumer = 'etl';
-- The data that a checkpoint relies on is flushed at commit even if the session has turned
-- synchronous_commit off.
create function pg_temp.commits(call text) returns text language plpgsql as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    execute call;
    return current_setting('synchronous_commit');
end
$$;
select pgq.publish('work', '1');
select pgq.stream_begin('work', 'disk', 'one');
select is(pg_temp.commits($$select pgq.stream_claim('work', 'disk', 'one', 1)$$), 'on',
    'stream_claim turns synchronous_commit on');
select is(pg_temp.commits($$select pgq.stream_read('work', 'disk', 1, 'r')$$), 'on',
    'stream_read turns synchronous_commit on');
select is(pg_temp.commits($$select pgq.stream_read('work', 'disk', 1, 'r')$$), 'off',
    'a repeated stream_read leaves synchronous_commit off');
select is(pg_temp.commits($$select pgq.commit_batch('r')$$), 'on',
    'commit_batch turns synchronous_commit on');
select is(pg_temp.commits($$select pgq.commit_batch('r')$$), 'off',
    'a repeated commit_batch leaves synchronous_commit off');
select is(pg_temp.commits($$select pgq.publish_staged('{}', 0, 'w', 1)$$), 'on',
    'publish_staged with an epoch turns synchronous_commit on');
select is(pg_temp.commits($$select pgq.publish_staged('{}', 0)$$), 'off',
    'publish_staged without an epoch leaves synchronous_commit off');
set local synchronous_commit = 'remote_apply';
select pgq._flush();
select is(current_setting('synchronous_commit'), 'remote_apply',
    'a stronger synchronous_commit of the session is kept');
select pgq.drop_queue('work', force => true);
select is_empty('select from pgq.stream', 'dropping a queue deletes its streams');
insert into pgq.stream values (4711, 'gone', 0, null, now());
select is((select count(*) from pgq.check() where problem = 'a stream belongs to no queue'),
    1::bigint, 'pgq.check() finds a stream without a queue');
call pgq.maintain();
select is_empty($$select * from pgq.check()$$, 'maintenance deletes a stream without a queue');
select * from finish();
rollback;
