-- Whatever the number of expired messages, a claim reads a bounded number of rows and finds all
-- others. An empty result means that nothing is ready. The test counts rows that indexes and the
-- table return. Messages are published in their own transactions, as by other sessions.
select no_plan();
select t.at(now());

create function t.read() returns bigint language sql volatile return (
    select sum(pg_stat_get_xact_tuples_returned(c.oid))
    from pg_class c left join pg_index i on i.indexrelid = c.oid
    where coalesce(i.indrelid, c.oid) = 'pgq.ready'::regclass);
-- The messages that a claim returns, or the number of rows of pgq.ready that it read if too many.
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
-- Clears the low watermark of the queue, as if a new session began.
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
select is((select count(*) from pgq.ready), 40400::bigint,
    'there are 40,000 single rows and 400 sets');
analyze pgq.ready;
select t.advance('2 s');
select is(t.claimed('empty'), 'nothing', 'a claim from an empty queue returns nothing');
select is(t.claimed('single'), 'nothing',
    'a claim from expired single rows reads a bounded number and returns nothing');
select is(t.claimed('sets', 10), 'nothing',
    'a claim from expired sets reads a bounded number of rows and returns nothing');
select is(t.claimed('empty', most => 100), 'nothing',
    'expired messages of other queues cost a claim nothing');

-- behind the expired messages: messages that never expire, and messages that expire later
select pgq.publish('single', '"last"'), pgq.publish('single', '"low"', priority => -1);
select pgq.publish('single', '"soon"', expires_in => '1 min');
select pgq.publish('single', '"later"', expires_in => '1 h');
select pgq.publish('sets', '"there"');
select t.forget('single'), t.forget('sets');
select is(t.claimed('single', 2), 'last soon',
    'messages behind expired ones are delivered in order');
select t.forget('single');
select is(t.claimed('single', 9), 'later low', 'a new session finds the others');
select is(t.claimed('single'), 'nothing', 'each message is delivered once');
select is(t.claimed('sets', 5), 'there', 'a message behind expired sets is found');

-- before the expired messages: a higher priority, and a redelivery
select pgq.publish('single', '"urgent"', priority => 5);
select is(t.claimed('single'), 'urgent', 'a message of higher priority is delivered first');
select pgq.publish('single', '"back"');
select pgq.nack(lease_id, delay => '0') from pgq.claim('single');
select is(t.claimed('single'), 'back', 'a message that failed is redelivered');

-- behind the expired messages: rows of several sizes
select count(*) from pgq.publish_batch('single', array['"a"', '"b"', '"c"']::jsonb[]);
select pgq.publish('single', '"d"'), pgq.publish('single', '"e"');
select t.forget('single');
select is(t.claimed('single', 5), 'a b c d e',
    'a claim takes as many messages as it asks for, whatever the size of the first row');

-- one claim removes a bounded number of expired rows, even if the clock advances meanwhile
create sequence t.calls;
create or replace function pgq.now() returns timestamptz language sql volatile  -- 30 ms per call
return current_setting('pgq_test.now')::timestamptz + nextval('t.calls') * interval '30 ms';
select pgq.publish('single', '"ticks"');
select count(*) as expired from pgq.ready \gset before_
select is(t.claimed('single', most => 5000), 'ticks', 'a claim reads few rows');
select cmp_ok(:before_expired - count(*), '<=', 101::bigint,
    'a claim removes few expired rows') from pgq.ready;
select t.forget('single');
select count(*) as expired from pgq.ready \gset before_
select is(t.claimed('single', most => 5000), 'nothing',
    'the first claim of a session reads few rows');
select is(count(*), :before_expired::bigint,
    'the first claim of a session removes no expired row') from pgq.ready;
select is(t.claimed('single', most => 5000), 'nothing', 'the second claim reads few rows');
select cmp_ok(:before_expired - count(*), '>', 0::bigint,
    'the second claim removes some expired rows') from pgq.ready;
select cmp_ok(:before_expired - count(*), '<=', 100::bigint,
    'the second claim removes at most 100 expired rows') from pgq.ready;

-- no such bound if a message of an ordering group may be behind the expired messages
select pgq.create_queue('line', on_expiry => 'discard');
select count(*) from pgq.publish_batch('line', array_fill('0'::jsonb, array[300]),
    expires_in => '1 s');
select pgq.publish('line', '"first"', group_key => 'g', expires_in => '1 s');
select pgq.publish('line', '"second"', group_key => 'g');
select t.advance('2 s');
select is(t.claimed('line'), 'second',
    'one claim finds the message behind an expired head of a group');
select pgq.drop_queue('line', force => true);

-- only expired messages are left
select t.forget('single');
select is(t.claimed('single', 100), 'nothing',
    'a claim returns nothing if only expired messages are left');
call pgq.maintain();
select is((select count(*) from pgq.ready), 0::bigint, 'maintain() removes all expired rows');
select is_empty('select * from pgq.check()', 'nothing is broken');

select pgq.drop_queue(q.name, force => true) from pgq.queue q;
select * from finish();
