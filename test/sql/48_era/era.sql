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
    'select 0::smallint, 0::bigint, pgq.now()',
    'the first call of maintain() begins the first era');
select max(lease_id) as lease from pgq.claim('orders') \gset
select pgq.ack(:lease);
select t.advance('59 min');
call pgq.maintain();
select is((select max(number) from pgq.era), 0::bigint, 'an era lasts as long as the retention');
select t.advance('2 min');
call pgq.maintain();
select is((select max(number) from pgq.era), 1::bigint, 'the next era begins after the retention');
select is((select count(*) from pgq.message), 1::bigint,
    'the log keeps the messages of the previous era');
select pgq.publish('orders', '"b"');
select is((select count(*) from pgq.message_1), 1::bigint, 'new messages go into the next slot');
select t.advance('58 min');
call pgq.maintain();
select is((select count(*) from pgq.message), 2::bigint,
    'messages are kept until the retention of their era is over');
select t.advance('3 min');
call pgq.maintain();
select is((select count(*) from pgq.message_0), 0::bigint, 'a slot is emptied after the retention');
select is((select count(*) from pgq.journal_0), 0::bigint,
    'the audit log of a slot is emptied with the slot');
select isnt((select emptied_at from pgq.era where slot = 0), null,
    'pgq.era stores when a slot was emptied');
select is(t.peek('orders'), 'b', 'an unfinished message is still in the queue');
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
select is(pg_temp.stored(), 0::bigint, 'all slots become empty if nothing is published');
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
    'an empty log does not rotate');
select pgq.drop_queue('idle');

-- many rotations, with messages that are never finished
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
select cmp_ok((select max(number) - min(number) from turn), '>=', 30::bigint,
    'the log rotates at least 30 times');
select cmp_ok((select max(rows) from turn), '<=', 350::bigint,
    'the log never has more than three rounds of messages');
select cmp_ok((select max(bytes) from turn where i > 30), '<=',
    (select max(bytes) from turn where i <= 10), 'storage does not grow');
select is((select count(*) from pgq.era), 3::bigint, 'the log has three slots');
select is((select max(number) - min(number) from pgq.era), 2::bigint,
    'the three slots hold consecutive eras');
select results_eq(
    $$select id, topic, priority, headers, payload, sender, correlation_id, expires_at, published_at
      from pgq.message where topic = 'hold' order by id$$,
    'select * from before_turns order by id',
    'unfinished messages are copied forward unchanged');
select cmp_ok((select count(*) from pgq.message where topic = 'flow'), '<', 250::bigint,
    'finished messages are not copied forward');
select is_empty('select * from pgq.check()', 'nothing is broken after many rotations');
select is((select payload from pgq.leased(:lease)), '"leased"',
    'a leased message can still be read after many rotations');
select is(pgq.ack(:lease), 1, 'a leased message can be acknowledged after many rotations');
select is(t.take('hold', '{"kind": "r"}'), 'ready',
    'a ready message can be claimed after many rotations');
select t.advance('366 days');
select is(t.take('hold', n => 5), 'delayed',
    'a delayed message is delivered when it is due after many rotations');
select t.advance('366 days');
create temp table last as select * from pgq.claim('hold', n => 5);
select is((select payload from last), '"retried"',
    'a message that waits for its retry is delivered after many rotations');
select is((select attempt from last), 2, 'the retry has attempt 2 after many rotations');
select is((select count(*) from pgq.message where payload = '"dead"'), 0::bigint,
    'a dead letter is not copied forward');
select is(pgq.replay('hold'), 1, 'a dead letter is replayed from the copy in pgq.letter');
select is(t.take('hold', n => 5), 'dead',
    'a replayed dead letter is delivered after many rotations');
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
    'a replayed message is copied forward like any other');

-- a rotation that was rolled back: the sequence has changed, pgq.era has not
select setval('pgq.era_number', last_value + 1) from pgq.era_number;
select pgq.publish('flow', '"after"');
call pgq.maintain();
select is((select number from pgq.era where number = (select last_value from pgq.era_number)),
    (select last_value from pgq.era_number), 'maintain() stores an era that is missing in pgq.era');
select is(t.take('flow'), 'after', 'messages of an era that was missing in pgq.era are delivered');

-- pgq._unfinished
select pgq.create_queue('parts', lease => '1 h');
select array_agg(id) as ids
from pgq.publish_batch('parts', array_fill('1'::jsonb, array[10])) id \gset
select count(*) from pgq.claim('parts', n => 3);
select is(pgq._set_size(pgq._unfinished('{(,)}') * pgq._set_of(:'ids')), 10,
    'ready and leased messages are unfinished');
select pgq.ack(lease_id) from pgq.lease join pgq.queue using (queue_id) where name = 'parts';
select is(pgq._set_size(pgq._unfinished('{(,)}') * pgq._set_of(:'ids')), 7,
    'acknowledged messages are finished');
select is(pgq._unfinished('{}'), '{}', 'an empty id set has no unfinished messages');

-- unfinished messages are found by index, however many finished messages are around them
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
select is(pgq._copy_forward(:slot, '-infinity'), false,
    '_copy_forward returns false when its time is up');
select is((select seq_scan from pg_stat_xact_user_tables
           where schemaname = 'pgq' and relname = 'message_' || :slot), :scans::bigint,
    '_copy_forward does not scan the slot sequentially');
select is((select count(*) between 900 and 1100 from pgq.message
           where era = :slot and id % 25 = 0 and topic = 'large'), true,
    '_copy_forward leaves about half of the unfinished messages when its time is up');
select is(pgq._copy_forward(:slot, 'infinity'), false,
    '_copy_forward returns false when it has copied the rest');
select is((select count(*) from pgq.message
           where era = :slot and id % 25 = 0 and topic = 'large'), 0::bigint,
    'no unfinished message is left in the slot');
select is(pgq._copy_forward(:slot, '-infinity'), true,
    '_copy_forward returns true when nothing is left to copy');
commit;

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
