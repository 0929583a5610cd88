-- A large filter is read and decompressed once for a claim or a publish, not for each message.
begin;
select no_plan();

create function pg_temp.large() returns jsonb language sql immutable as $$
    select jsonb_build_object('k', jsonb_agg('value number ' || i)) from generate_series(1, 999) i
$$;
select pgq.create_queue('q');
select is_empty('select * from pgq.claim(''q'', pg_temp.large())',
    'a claim with a large filter finds nothing in an empty queue');
select isnt((select pg_column_compression(f.path) from pgq.filter f), null,
    'the stored filter is compressed');
select is(pg_column_compression((pgq._find_filter(pg_temp.large(), null)).path), null,
    'the filter that a claim uses is not compressed');

-- A path that is stored out of line costs an index scan of the TOAST table each time it is read.
create function pg_temp.reads() returns bigint language sql volatile as $$
    select t.idx_scan from pg_stat_xact_all_tables t
    where t.relid = (select c.reltoastrelid from pg_class c where c.oid = 'pgq.binding'::regclass)
$$;
select pgq.subscribe('s', 't', (
    select jsonb_build_object('k', jsonb_agg(md5(i::text)) || '["x"]')
    from generate_series(1, 999) i));
select cmp_ok((select pg_column_size(b.path) from pgq.binding b where b.path is not null),
    '>', 8000, 'the filter of a subscription is stored out of line');
create temp table before as select pg_temp.reads();
select pgq.publish_batch('t', array(select to_jsonb(i) from generate_series(1, 100) i),
    array_fill('{"k": "x"}'::jsonb, '{100}'));
select cmp_ok(pg_temp.reads() - b.reads, '<=', 2::bigint,
    'a publish of 100 messages reads the filter once, not for each message')
from before b;
select is((select count(*) from pgq.claim('s', n => 1000)), 100::bigint,
    'all 100 messages match the filter');

select * from finish();
rollback;
