-- Fast paths search the head among the next rows only, and read one slot of the log if they can.
-- Neither bound may hide a message or change the order. Not in one transaction: a rotation takes
-- several. The clock is constant, so that all claims of a part happen in one tick, with one low
-- watermark.
select no_plan();
select t.at(now());
alter function pgq._limit(text) rename to _real_limit;
create function pgq._limit(name text) returns int language sql immutable
return case name when 'window_rows' then 3 else pgq._real_limit(name) end;

-- rows of one message
select pgq.create_queue('one');
select pgq.publish('one', to_jsonb(i)) from generate_series(1, 10) i;
select is(string_agg(t.take('one'), ' ' order by i), '1 2 3 4 5 6 7 8 9 10',
    'claims of one message continue behind the window, in order')
from generate_series(1, 10) i;
select is(t.take('one'), null, 'no message is left');

-- rows of two messages
select pgq.create_queue('two', set_size => 2);
select count(*)
from pgq.publish_batch('two', array(select to_jsonb(i) from generate_series(1, 16) i));
select is(string_agg(t.take('two', n => 2), ' ' order by i), '1 2 3 4 5 6 7 8 9 10 11 12 13 14',
    'claims of a whole row continue behind the window, in order')
from generate_series(1, 7) i;
select is(t.take('two'), '15', 'a claim of a part of a row continues behind the window');

-- a message of higher priority, published after a claim stored a window
select pgq.publish('one', to_jsonb(i)) from generate_series(1, 10) i;
select is(t.take('one'), '1', 'a claim takes the first message and stores a window');
select pgq.publish('one', '"urgent"', priority => 1);
select is(t.take('one'), 'urgent', 'the window does not hide a message of higher priority');
select is(t.take('one', n => 20), '2 3 4 5 6 7 8 9 10', 'the window hides no other message');

-- eras
create or replace function pgq._limit(name text) returns int language sql immutable
return pgq._real_limit(name);
create function t.done(topic text, n int default 1) returns text language plpgsql as $$
declare
    v_taken record;
begin
    select max(c.lease_id) as lease_id,
           string_agg(c.payload #>> '{}', ' ' order by c.id) as payloads
    into v_taken from pgq.claim(topic, n => n) c;
    perform pgq.ack(v_taken.lease_id);
    return v_taken.payloads;
end $$;
select pgq.drop_queue('one', force => true), pgq.drop_queue('two', force => true);
select pgq.create_queue('log', retention => '1 h');
call pgq.maintain();
select pgq.publish('log', '"old"');
select is(t.done('log'), 'old', 'a message of the first era is read');
select is((select first_id <= (select min(id) from pgq.message where topic = 'log')
           from pgq.era where number = 0), true,
    'the first id of the first era is not above the ids of its messages');
select pgq.publish('log', to_jsonb(i)) from generate_series(1, 4) i;
select t.advance('61 min');
call pgq.maintain();
select is((select max(number) from pgq.era), 1::bigint, 'the next era begins');
select pgq.publish('log', to_jsonb(i)) from generate_series(5, 8) i;
select is(t.done('log', n => 3), '1 2 3', 'messages of the earlier era are read');
select is(t.done('log', n => 3), '4 5 6', 'one claim reads messages of both eras');
select is(t.done('log'), '7', 'a message of the current era is read');
select t.advance('61 min');
select pgq.publish('log', to_jsonb(i)) from generate_series(9, 11) i;
select is(t.done('log'), '8', 'a claim takes a message and stores the era');
call pgq.maintain();
call pgq.maintain();
select is((select max(number) from pgq.era), 2::bigint, 'the third era begins in the same tick');
select pgq.publish('log', to_jsonb(i)) from generate_series(12, 13) i;
select is(string_agg(t.done('log'), ' ' order by i), '9 10 11',
    'messages that were published before the third era are read') from generate_series(1, 3) i;
select is(t.done('log'), '12', 'a message that was published in the third era is read');
select is((select first_id from pgq.era where number = 2),
    (select max(id) - 1 from pgq.message where topic = 'log'),
    'the first message of the third era has the first id of that era');

-- claims by filter, whose messages have large gaps: every tenth message matches
create function t.publish_tenths(n int) returns void language sql as $$
    insert into pgq.message (topic, headers, payload)
    select 'tenths', jsonb_build_object('type', case when i % 10 = 0 then 'tenth' end),
           to_jsonb(i)
    from generate_series(1, n) i
$$;
create function t.searches() returns bigint language sql as $$
    select sum(pg_stat_get_xact_numscans(i.indexrelid))::bigint
    from pg_catalog.pg_index i
    where i.indisprimary
      and i.indrelid::regclass::text in ('pgq.message_0', 'pgq.message_1', 'pgq.message_2')
$$;
select pgq.create_queue('tenths');
select t.publish_tenths(500);
select is(t.take('tenths', '{"type": "tenth"}', lease => '9 h'), '10',
    'a claim by filter stores the era');
begin;
select t.searches() as before \gset
select is(t.take('tenths', '{"type": "tenth"}', 10, '9 h'), '20 30 40 50 60 70 80 90 100 110',
    'the next claim takes ten messages');
select cmp_ok(t.searches() - :before, '<=', 16::bigint,
    'the claim searches each of them in one slot of the log');
commit;
select t.advance('61 min');
call pgq.maintain();
call pgq.maintain();
select t.publish_tenths(20);
select is(t.take('tenths', '{"type": "tenth"}', 38),
    (select string_agg(i::text, ' ') from generate_series(120, 490, 10) i),
    'a claim by filter reads messages of an earlier era');
select is(t.take('tenths', '{"type": "tenth"}', 38), '500 10 20',
    'a claim by filter reads messages of both eras');
select * from finish();
