-- Sets with small gaps are read as one range of the log: what a filter leaves behind, and what it
-- takes. The test counts searches of indexes.
begin;
select no_plan();
select t.at(now());

-- Searches in the primary keys of the log, in this transaction.
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
    'a claim by filter takes what matches');
select cmp_ok(t.searches() - :before, '<=', 6::bigint, 'and searches each slot of the log twice');
select t.searches() as before \gset
select is((select array_agg(c.payload::int) from pgq.claim('deals', '{"type": "most"}', 100) c),
    array(select i from generate_series(31, 99) i where i % 10 <> 0), 'also at the end');
select cmp_ok(t.searches() - :before, '<=', 6::bigint, 'where the row has two gaps');
select is(t.take('deals', n => 100), '10 20 30 40 50 60 70 80 90 100',
    'what does not match is left to others');

-- Messages of others within the range: they are not delivered, and not even tested, because they
-- may be large.
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
    array(select i from generate_series(19, 30) i where i % 3 <> 0), 'nor without a filter');
select is(t.toasted_reads() - :before, 0::bigint, 'and their headers are not read');
select is((select count(*) from pgq.claim('other', '{"type": {"$exists": true}}', 10)), 10::bigint,
    'the other queue reads them');
select cmp_ok(t.toasted_reads() - :before, '>', 0::bigint, 'which is noticed');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
