-- Sets with small gaps are read as one range of the log: the messages that a filter takes, and
-- those that it leaves. The test counts index scans.
begin;
select no_plan();
select t.at(now());

-- Scans of the primary keys of the log in this transaction.
create function t.searches() returns bigint language sql as $$
    select sum(pg_stat_get_xact_numscans(i.indexrelid))::bigint
    from pg_catalog.pg_index i
    where i.indisprimary
      and i.indrelid::regclass::text in ('pgq.message_0', 'pgq.message_1', 'pgq.message_2')
$$;
create function t.take_most(n int) returns text language sql as $$
    select string_agg(c.payload::text, ' ') from pgq.claim('deals', '{"type": "most"}', n) c
$$;

select pgq.create_queue('deals');
insert into pgq.message (topic, headers, payload)
select 'deals', jsonb_build_object('type', case when i % 10 = 0 then 'few' else 'most' end),
       to_jsonb(i)
from generate_series(1, 100) i;
select t.take_most(9);
select t.searches() as before \gset
select is(t.take_most(18), '11 12 13 14 15 16 17 18 19 21 22 23 24 25 26 27 28 29',
    'a claim with a filter takes the messages that match');
select cmp_ok(t.searches() - :before, '<=', 6::bigint,
    'the claim scans each slot of the log at most twice');
select t.searches() as before \gset
select is((select array_agg(c.payload::int) from pgq.claim('deals', '{"type": "most"}', 100) c),
    array(select i from generate_series(31, 99) i where i % 10 <> 0),
    'a claim takes all remaining matches');
select cmp_ok(t.searches() - :before, '<=', 6::bigint,
    'that claim also scans each slot of the log at most twice');
select is(t.take('deals', n => 100), '10 20 30 40 50 60 70 80 90 100',
    'messages that do not match are left for others');

-- Messages of other queues within the range: a claim neither delivers nor tests them, because
-- they may be large.
create function t.toasted_reads() returns bigint language sql as $$
    select sum(pg_stat_get_xact_numscans(i.indexrelid))::bigint
    from pg_catalog.pg_index i
    join pg_catalog.pg_class c on c.reltoastrelid = i.indrelid
    where c.oid::regclass::text in ('pgq.message_0', 'pgq.message_1', 'pgq.message_2')
$$;
select pgq.create_queue('other');
insert into pgq.message (topic, headers, payload)
select case i % 3 when 0 then 'other' else 'deals' end,
       jsonb_build_object('type', case i % 3 when 0 then (
           select string_agg(md5(i::text || j), '') from generate_series(1, 1000) j)
       else 'most' end),
       to_jsonb(i)
from generate_series(1, 30) i;
select t.toasted_reads() as before \gset
select is((select array_agg(c.payload::int) from pgq.claim('deals', '{"type": "most"}', 12) c),
    array(select i from generate_series(1, 18) i where i % 3 <> 0),
    'messages of another queue in the gaps are not delivered');
select is((select array_agg(c.payload::int) from pgq.claim('deals', n => 12) c),
    array(select i from generate_series(19, 30) i where i % 3 <> 0),
    'a claim without a filter does not deliver them either');
select is(t.toasted_reads() - :before, 0::bigint,
    'the claims do not read the headers of the other queue''s messages');
select is((select count(*) from pgq.claim('other', '{"type": {"$exists": true}}', 10)), 10::bigint,
    'a claim from the other queue delivers its messages');
select cmp_ok(t.toasted_reads() - :before, '>', 0::bigint,
    'the test detects reads of large headers');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
