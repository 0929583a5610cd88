-- Eras: the log rotates, no unfinished message is lost, storage stays bounded. Not in one
-- transaction: a slot is truncated by a later transaction than its last copy.
select no_plan();
select t.at(now());
create function pg_temp.stored() returns bigint language plpgsql as $$
begin
    return (select count(*) from pgq.message) + (select count(*) from pgq.journal);
end
$$;

-- retention
select pgq.create_queue('orders', retention => '1 h');
select is((select count(*) from pgq.era), 0::bigint, 'a new installation has no era yet');
select pgq.publish('orders', '"a"');
call pgq.maintain();
select results_eq('select slot, number, started_at from pgq.era',
    'select 0::smallint, 0::bigint, pgq.now()', 'the first upkeep begins the first era');
select max(lease_id) as lease from pgq.claim('orders') \gset
select pgq.ack(:lease);
select t.advance('59 min');
call pgq.maintain();
select is((select max(number) from pgq.era), 0::bigint, 'an era lasts as long as the retention');
select t.advance('2 min');
call pgq.maintain();
select is((select max(number) from pgq.era), 1::bigint, 'then the next one begins');
select is((select count(*) from pgq.message), 1::bigint, 'the log still has its messages');
select pgq.publish('orders', '"b"');
select is((select count(*) from pgq.message_1), 1::bigint, 'new messages go into the next slot');
select t.advance('58 min');
call pgq.maintain();
select is((select count(*) from pgq.message), 2::bigint, 'everything is kept for the retention');
select t.advance('3 min');
call pgq.maintain();
select is((select count(*) from pgq.message_0), 0::bigint, 'and then emptied');
select is((select count(*) from pgq.journal_0), 0::bigint, 'with its journal');
select isnt((select emptied_at from pgq.era where slot = 0), null, 'the ring knows');
select is(t.peek('orders'), 'b', 'what is not done is still there');
select pgq.create_queue('slow', retention => '1 year');
select pgq.publish('orders', '"c"');
select t.advance('30 days');
call pgq.maintain();
select is((select count(*) from pgq.message), 2::bigint,
    'the longest retention of all queues counts');
select pgq.drop_queue('slow');
select pgq.drop_queue('orders', force => true);

-- idle
select pgq.create_queue('idle', retention => '0');
do $$
begin
    for i in 1 .. 8 loop
        perform t.advance('1 h');
        for step in 1 .. 5 loop
            call pgq.maintain();
            commit;
        end loop;
    end loop;
end
$$;
select is(pg_temp.stored(), 0::bigint, 'when nothing is published all slots get empty');
create temp table stand as select last_value from pgq.era_number;
do $$
begin
    for i in 1 .. 5 loop
        perform t.advance('1 h');
        for step in 1 .. 5 loop
            call pgq.maintain();
            commit;
        end loop;
    end loop;
end
$$;
select is((select last_value from pgq.era_number), (select last_value from stand),
    'and eras no longer turn');
select pgq.drop_queue('idle');

-- many turns, with messages that never get done
select pgq.create_queue('flow', '{kind}', lease => '10 years', retention => '0', max_attempts => 9);
select pgq.create_queue('hold', lease => '10 years', retention => '0');
select pgq.publish('hold', '"leased"', '{"kind": "l"}', sender => 'me', expires_in => '20 years');
select max(lease_id) as lease from pgq.claim('hold') \gset
select pgq.publish('hold', '"delayed"', delay => '1 year');
select pgq.publish('hold', '"dead"');
select max(lease_id) as dead from pgq.claim('hold') \gset
select pgq.bury(:dead, error => 'no');
select pgq.publish('hold', '"retried"');
select max(lease_id) as retried from pgq.claim('hold') \gset
select pgq.nack(:retried, delay => '2 years', error => 'later');
select pgq.publish('hold', '"ready"', '{"kind": "r"}', priority => 3, correlation_id => 'c');
create temp table before_turns as
select id, topic, priority, headers, payload, sender, correlation_id, expires_at, published_at
from pgq.message where topic = 'hold' and payload <> '"dead"';
create temp table turn (i int, rows bigint, bytes bigint, number bigint);
do $$
begin
    for i in 1 .. 40 loop
        insert into pgq.message (topic, headers, payload)
        select 'flow', jsonb_build_object('kind', j % 3), to_jsonb(repeat('x', 500))
        from generate_series(1, 100) j;
        perform pgq.ack(lease_id)
        from (select distinct lease_id from pgq.claim('flow', n => 1000)) l;
        perform t.advance('1 s');
        for step in 1 .. 5 loop
            call pgq.maintain();
            commit;
        end loop;
        insert into turn
        select i, pg_temp.stored(),
               (select sum(pg_relation_size(c.oid)) from pg_class c
                where c.relname ~ '^(message|journal)_[012]$'
                  and c.relnamespace = 'pgq'::regnamespace),
               (select last_value from pgq.era_number);
    end loop;
end
$$;
select cmp_ok((select max(number) - min(number) from turn), '>=', 30::bigint, 'eras turn and turn');
select cmp_ok((select max(rows) from turn), '<=', 350::bigint,
    'the log never has more than three rounds of messages');
select cmp_ok((select max(bytes) from turn where i > 30), '<=',
    (select max(bytes) from turn where i <= 10), 'storage does not grow');
select is((select count(*) from pgq.era), 3::bigint, 'the ring has three slots');
select is((select max(number) - min(number) from pgq.era), 2::bigint, 'one after the other');
select results_eq(
    $$select id, topic, priority, headers, payload, sender, correlation_id, expires_at, published_at
      from pgq.message where topic = 'hold' order by id$$,
    'select * from before_turns order by id',
    'unfinished messages are carried forward as they are');
select cmp_ok((select count(*) from pgq.message where topic = 'flow'), '<', 250::bigint,
    'finished ones are not');
select is_empty('select * from pgq.check()', 'after many turns nothing is broken');
select is((select payload from pgq.leased(:lease)), '"leased"',
    'what was leased can still be read');
select is(pgq.ack(:lease), 1, 'and acknowledged');
select is(t.take('hold', '{"kind": "r"}'), 'ready', 'what was ready can be claimed');
select t.advance('366 days');
select is(t.take('hold', n => 5), 'delayed', 'what was delayed comes when it is due');
select t.advance('366 days');
create temp table last as select * from pgq.claim('hold', n => 5);
select is((select payload from last), '"retried"', 'what was to be retried comes, too');
select is((select attempt from last), 2, 'with its attempts');
select is((select count(*) from pgq.message where payload = '"dead"'), 0::bigint,
    'a dead letter is not carried forward');
select is(pgq.replay('hold'), 1, 'it is replayed from its copy');
select is(t.take('hold', n => 5), 'dead', 'and delivered');
do $$
begin
    for i in 1 .. 5 loop
        perform pgq.publish('flow', '1');
        perform pgq.ack(lease_id) from pgq.claim('flow');
        perform t.advance('1 s');
        call pgq.maintain();
    end loop;
end
$$;
select is((select count(*) from pgq.message where payload = '"dead"'), 1::bigint,
    'from then on it is carried forward like any other');

-- a rolled-back turn: the sequence has moved, the table has not
select setval('pgq.era_number', last_value + 1) from pgq.era_number;
select pgq.publish('flow', '"after"');
call pgq.maintain();
select is((select number from pgq.era where number = (select last_value from pgq.era_number)),
    (select last_value from pgq.era_number), 'an era that nobody wrote down is written down');
select is(t.take('flow'), 'after', 'and its messages are delivered');

-- parts
select pgq.create_queue('parts', lease => '1 h');
select array_agg(id) as ids
from pgq.publish_batch('parts', array_fill('1'::jsonb, array[10])) id \gset
select count(*) from pgq.claim('parts', n => 3);
select is(pgq._set_size(pgq._unfinished('{(,)}') * pgq._set_of(:'ids')), 10,
    'what is ready and what is leased is unfinished');
select pgq.ack(lease_id) from pgq.lease join pgq.queue using (queue_id) where name = 'parts';
select is(pgq._set_size(pgq._unfinished('{(,)}') * pgq._set_of(:'ids')), 7, 'what is done is not');
select is(pgq._unfinished('{}'), '{}', 'of nothing nothing is unfinished');

-- what is unfinished is found by index, however much is finished around it
select pgq.create_queue('large');
select pg_sequence_last_value('pgq.era_number') % 3 as slot \gset
select count(*) as published
from pgq.publish_batch('large', array_fill('1'::jsonb, '{50000}')) \gset
select min(lease_id) as lease from pgq.claim('large', n => 50000, lease => '1 day') \gset
select pgq.ack(:lease, array(select id from pgq.leased(:lease) where id % 25 <> 0)) as done \gset
begin;
select seq_scan as scans from pg_stat_xact_user_tables
where schemaname = 'pgq' and relname = 'message_' || :slot \gset
select setval('pgq.era_number', pg_sequence_last_value('pgq.era_number') + 1);
select is(pgq._copy_forward(:slot, '-infinity'), false, 'the time is up, and some are copied');
select is((select seq_scan from pg_stat_xact_user_tables
           where schemaname = 'pgq' and relname = 'message_' || :slot), :scans::bigint,
    'and the slot is not read from end to end for it');
select is((select count(*) between 900 and 1100 from pgq.message
           where era = :slot and id % 25 = 0 and topic = 'large'), true, 'others are not');
select is(pgq._copy_forward(:slot, 'infinity'), false, 'the others are copied');
select is((select count(*) from pgq.message
           where era = :slot and id % 25 = 0 and topic = 'large'), 0::bigint, 'all of them');
select is(pgq._copy_forward(:slot, '-infinity'), true, 'nothing is left to copy');
commit;

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
