-- Whatever the number of expired messages, a claim reads a bounded number of rows and finds all
-- others. An empty result means that nothing is ready. The test counts rows that indexes and the
-- table return. Messages are published in their own transactions, as by other sessions.
select no_plan();
select t.at(now());

create function t.read() returns bigint language sql volatile return (
    select sum(pg_stat_get_xact_tuples_returned(c.oid))
    from pg_class c left join pg_index i on i.indexrelid = c.oid
    where coalesce(i.indrelid, c.oid) = 'pgq.ready'::regclass);
-- What a claim gets, unless it has read more rows of pgq.ready than it may.
create function t.claimed(queue text, n int default 1, most int default 25000) returns text
language plpgsql as $$
declare
    v_before bigint := t.read();
    v_found text := t.take(queue, n => n);
begin
    if t.read() - v_before > most then
        return format('%s rows read', t.read() - v_before);
    end if;
    return coalesce(v_found, 'nothing');
end $$;
-- A new session knows nothing of the queue.
create function t.forget(queue text) returns void language plpgsql as $$
begin
    perform set_config('pgq.low_' || q.queue_id, '', false) from pgq.queue q where q.name = queue;
end $$;

select pgq.create_queue('empty'), pgq.create_queue('single', on_expiry => 'discard'),
       pgq.create_queue('sets', on_expiry => 'discard', set_size => 100);
-- Single rows as 40,000 publishers would leave them, made at once.
insert into pgq.message (topic, payload, deliver_at, expires_at)
select 'single', '0', 'infinity', pgq.now() + make_interval(secs => i::float8 / 100000)
from generate_series(1, 40000) i;
insert into pgq.ready (queue_id, rank, attempt, size, xid, expires_at, grouped, ids)
select q.queue_id, pgq._rank(0, false, m.id), 0, 1, pg_current_xact_id(), m.expires_at, false,
       int8multirange(int8range(m.id, m.id + 1))
from pgq.message m join pgq.queue q on q.name = m.topic;
insert into pgq.message (topic, payload, expires_at)
select 'sets', '0', pgq.now() + interval '1 s' from generate_series(1, 40000) i;
select is((select count(*) from pgq.ready), 40400::bigint, 'rows to begin with');
analyze pgq.ready;
select t.advance('2 s');
select is(t.claimed('empty'), 'nothing', 'a claim of another queue');
select is(t.claimed('single'), 'nothing', 'everything has expired, which is certain');
select is(t.claimed('sets', 10), 'nothing', 'the same in sets');
select is(t.claimed('empty', most => 100), 'nothing',
    'a queue without expired messages pays nothing');

-- behind the expired ones: what lasts, and what expires later
select pgq.publish('single', '"last"'), pgq.publish('single', '"low"', priority => -1);
select pgq.publish('single', '"soon"', expires_in => '1 min');
select pgq.publish('single', '"later"', expires_in => '1 h');
select pgq.publish('sets', '"there"');
select t.forget('single'), t.forget('sets');
select is(t.claimed('single', 2), 'last soon', 'what has not expired comes in order');
select t.forget('single');
select is(t.claimed('single', 9), 'later low', 'also for the next session');
select is(t.claimed('single'), 'nothing', 'and no more than once');
select is(t.claimed('sets', 5), 'there', 'the same in sets');

-- before them: what is more urgent
select pgq.publish('single', '"urgent"', priority => 5);
select is(t.claimed('single'), 'urgent', 'what is more urgent comes first');
select pgq.publish('single', '"back"');
select pgq.nack(lease_id, delay => '0') from pgq.claim('single');
select is(t.claimed('single'), 'back', 'what was refused comes back');

-- behind them: rows of several sizes
select count(*) from pgq.publish_batch('single', array['"a"', '"b"', '"c"']::jsonb[]);
select pgq.publish('single', '"d"'), pgq.publish('single', '"e"');
select t.forget('single');
select is(t.claimed('single', 5), 'a b c d e',
    'a claim has what it wants, however large the first row is');

-- one claim ends so many and no more, also if the clock goes on meanwhile
create sequence t.calls;
create or replace function pgq.now() returns timestamptz language sql volatile  -- goes on by ticks
return current_setting('pgq_test.now')::timestamptz + nextval('t.calls') * interval '30 ms';
select pgq.publish('single', '"ticks"');
select count(*) as expired from pgq.ready \gset before_
select is(t.claimed('single', most => 5000), 'ticks', 'a claim reads few rows');
select cmp_ok(:before_expired - count(*), '<=', 101::bigint, 'and ends few') from pgq.ready;
select t.forget('single');
select count(*) as expired from pgq.ready \gset before_
select is(t.claimed('single', most => 5000), 'nothing', 'the first claim of a session');
select is(count(*), :before_expired::bigint, 'ends none of many') from pgq.ready;
select is(t.claimed('single', most => 5000), 'nothing', 'the next one');
select cmp_ok(:before_expired - count(*), '>', 0::bigint, 'ends some') from pgq.ready;
select cmp_ok(:before_expired - count(*), '<=', 100::bigint, 'and not many') from pgq.ready;

-- but not if a message of an ordering group may stand behind them
select pgq.create_queue('line', on_expiry => 'discard');
select count(*) from pgq.publish_batch('line', array_fill('0'::jsonb, array[300]),
    expires_in => '1 s');
select pgq.publish('line', '"first"', group_key => 'g', expires_in => '1 s');
select pgq.publish('line', '"second"', group_key => 'g');
select t.advance('2 s');
select is(t.claimed('line'), 'second', 'behind an expired head the next one is found at once');
select pgq.drop_queue('line', force => true);

-- nothing is left but expired ones
select t.forget('single');
select is(t.claimed('single', 100), 'nothing', 'still nothing');
call pgq.maintain();
select is((select count(*) from pgq.ready), 0::bigint, 'maintain() removes all of them');
select is_empty('select * from pgq.check()', 'nothing is broken');

select pgq.drop_queue(q.name, force => true) from pgq.queue q;
select * from finish();
