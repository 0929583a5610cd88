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
select throws_ok(format('select pgq.stream_begin(%s)', a), '22023', null, format('not (%s)', a))
from unnest(array[
    $$'work', '', 'one'$$, $$'work', null, 'one'$$, $$'work', 'etl', null$$,
    $$'work', 'etl', 'one', '0'$$, $$'work', 'etl', 'one', null$$,
    $$'work', 'etl', 'one', '1 s', '-1 s'$$, $$'work', repeat('x', 201), 'one'$$]) a;
select throws_ok($$select pgq.stream_begin('nowhere', 'etl', 'one')$$, 'QU001', null,
    'a stream needs a queue');
select throws_ok($$select pgq.stream_claim('work', 'etl', 'one', 1)$$, '55006', null,
    'and has to begin');
select is(pgq.stream_begin('work', 'etl', 'one', '10 s'), 0::bigint, 'a new name has no batch');
select is(pgq.stream_begin('work', 'etl', 'one', '10 s'), 0::bigint, 'its owner says it again');
select throws_ok($$select pgq.stream_begin('work', 'etl', 'two')$$, '55006', null,
    'nobody else gets it');
select matches(t.hint_of($$select pgq.stream_begin('work', 'etl', 'two')$$), 'own',
    'and is told what to do');
select is(pgq.stream_begin('work', 'other', 'two'), 0::bigint, 'but another name');

-- batches
select is(pg_temp.batch(1), '1 2 3 4', 'a batch is claimed');
select is(pg_temp.batch(1, 9), '1 2 3 4', 'the same batch is the same messages');
select results_eq($$select size from pgq.stream_batch('work', 'etl', 1)$$, 'values (4::bigint)',
    'it can be looked up');
select is_empty($$select from pgq.stream_batch('work', 'etl', 2)$$, 'the next one cannot');
select is(pg_temp.batch(2), '5 6 7 8', 'the next batch are the next messages');
select is_empty($$select from pgq.stream_batch('work', 'etl', 1)$$, 'and finishes the one before');
select is((select sum(size) from pgq.journal where event = 'ack'), 4::bigint,
    'its messages are acknowledged');
select throws_ok('select pg_temp.batch(1)', 'QU003', null, 'what is finished does not come again');
select throws_ok('select pg_temp.batch(null)', 'QU003', null, 'a batch has a number');
select is(pgq.stream_finish('work', 'etl', 'one', 2), 4, 'the last one is finished');
select is(pgq.stream_finish('work', 'etl', 'one', 2), 0, 'once');
select is(pgq.stream_finish('work', 'etl', 'one', null), 0, 'nothing is nothing');
select is(pg_temp.batch(3), '9 10', 'the rest is a smaller batch');
select is(pg_temp.batch(4), null, 'then there is nothing');
select is(pgq.stream_begin('work', 'etl', 'one', '10 s'), 3::bigint,
    'the owner learns what is finished');

-- owners
select pgq.publish_batch('work', array(select to_jsonb(i) from generate_series(11, 20) i));
select is(pg_temp.batch(4), '11 12 13 14', 'an owner claims');
select t.advance('11 s');
select is(pgq.stream_begin('work', 'etl', 'two', '10 s'), 3::bigint,
    'who is silent loses the name');
select throws_ok('select pg_temp.batch(4)', '55006', null, 'and can claim nothing');
select throws_ok($$select pgq.stream_finish('work', 'etl', 'one', 4)$$, '55006', null,
    'nor finish anything');
select throws_ok($$select pgq.stream_begin('work', 'etl', 'one', '10 s')$$, '55006', null,
    'nor take it back');
select is(pg_temp.batch(4, owner => 'two'), '11 12 13 14', 'the new owner has the batch');
select is(pgq.stream_end('work', 'etl', 'one'), false, 'what is not his nobody gives free');
select is(pgq.stream_end('work', 'etl', 'two'), true, 'an owner gives the name free');
select is(pgq.stream_begin('work', 'etl', 'three', '10 s'), 3::bigint, 'for the next one at once');
select is(pg_temp.batch(4, owner => 'three'), '11 12 13 14', 'who has the batch then');

-- leases
select pgq.stream_finish('work', 'etl', 'three', 4);
select pgq.stream_claim('work', 'etl', 'three', 5, n => 2, lease => '20 s');
select t.advance('15 s');
select pgq.stream_begin('work', 'etl', 'three', '10 s', lease => '20 s');
select t.advance('15 s');
select is(t.take('work', n => 100), '17 18 19 20', 'a lease is renewed with the name');
select is((select size from pgq.stream_batch('work', 'etl', 5)), 2::bigint, 'and holds its batch');
select t.advance('6 s');
select isnt(t.take('work', n => 1), null, 'or it ends');
select is_empty($$select from pgq.stream_batch('work', 'etl', 5)$$, 'and the batch is lost');
select is(pgq.stream_finish('work', 'etl', 'three', 5), 0, 'finishing it finds nothing');

-- queries
select pgq.stream_begin('work', 'tied', 'one', '1 h');
select results_eq($$select finished from pgq.stream_bind('work', 'tied', 'one', 'q1')$$,
    'values (0::bigint)', 'a new name is tied to a new query');
select results_eq($$select finished, bound_to from pgq.stream_bind('work', 'tied', 'one', 'q2')$$,
    $$values (0::bigint, 'q1')$$, 'and stays tied to it while nothing is finished');
select pgq.stream_finish('work', 'tied', 'one', 1);
select results_eq($$select finished from pgq.stream_bind('work', 'tied', 'one', 'q1', 1)$$,
    'values (1::bigint)', 'its query comes again');
select throws_ok($$select pgq.stream_bind('work', 'tied', 'one', 'q3')$$, '55000', null,
    'a new checkpoint is refused');
select matches(t.hint_of($$select pgq.stream_bind('work', 'tied', 'one', 'q3')$$),
    'newCheckpoint', 'and is told what to do');
select throws_ok($$select pgq.stream_bind('work', 'tied', 'one', 'q2', 1)$$, '55000', null,
    'and one of another query');
select throws_ok($$select pgq.stream_bind('work', 'tied', 'two', 'q1', 1)$$, '55006', null,
    'and who does not have the name');
select results_eq(
    $$select finished, stream_id from pgq.stream_bind('work', 'tied', 'one', 'q3', anew => true)$$,
    $$select 1::bigint, stream_id from pgq.stream where consumer = 'tied'$$,
    'unless it begins anew');
select is((select query from pgq.stream where consumer = 'tied'), 'q3', 'which is kept');
select lives_ok($$select pgq.stream_bind('work', 'tied', 'one', batch => 1)$$,
    'who has no query only asks');

-- an interval of numbers that nobody has claimed
select is(pgq.stream_finish('work', 'etl', 'three', 1000000000000), 0,
    'a number far ahead costs nothing');
select is_empty($$select * from pgq.check()$$, 'all is sound');

-- check, drop
update pgq.stream set batch = 0 where consumer = 'etl';
select pgq.nack(lease_id, delay => '0') from pgq.leases;
select t.advance('1 s');
select isnt(pg_temp.batch(7, owner => 'three'), null, 'a batch');
update pgq.stream set batch = 7 where consumer = 'etl';
select is((select count(*) from pgq.check()
           where problem = 'a stream holds a batch that it has finished'), 1::bigint,
    'a finished batch that is held is found out');
update pgq.stream set batch = 0 where consumer = 'etl';
-- What a checkpoint relies on is on the disk when the call returns, whatever the session says.
create function pg_temp.commits(call text) returns text language plpgsql as $$
begin
    perform set_config('synchronous_commit', 'off', true);
    execute call;
    return current_setting('synchronous_commit');
end
$$;
select pgq.publish('work', '1');
select pgq.stream_begin('work', 'disk', 'one');
select is(pg_temp.commits($$select pgq.stream_claim('work', 'disk', 'one', 1)$$), 'on', 'a claim');
select is(pg_temp.commits($$select pgq.stream_read('work', 'disk', 1, 'r')$$), 'on', 'a read');
select is(pg_temp.commits($$select pgq.stream_read('work', 'disk', 1, 'r')$$), 'off',
    'which was noted before');
select is(pg_temp.commits($$select pgq.commit_batch('r')$$), 'on', 'a commit');
select is(pg_temp.commits($$select pgq.commit_batch('r')$$), 'off', 'which was done before');
select is(pg_temp.commits($$select pgq.publish_staged('{}', 0, 'w', 1)$$), 'on', 'an epoch');
select is(pg_temp.commits($$select pgq.publish_staged('{}', 0)$$), 'off', 'no other write');
set local synchronous_commit = 'remote_apply';
select pgq._flush();
select is(current_setting('synchronous_commit'), 'remote_apply', 'what waits for more stays');
select pgq.drop_queue('work', force => true);
select is_empty('select from pgq.stream', 'the streams of a queue go with it');
insert into pgq.stream values (4711, 'gone', 0, null, now());
select is((select count(*) from pgq.check() where problem = 'a stream belongs to no queue'),
    1::bigint, 'one without a queue is found out');
call pgq.maintain();
select is_empty($$select * from pgq.check()$$, 'and swept');
select * from finish();
rollback;
