-- The cost of purging and moving many single messages, in rows read.
begin;
select no_plan();
select t.at(now());
-- Slices of 100 rows instead of 10,000.
create or replace function pgq._limit(name text) returns int language sql immutable
return case name when 'operate_rows' then 10 when 'policy_years' then 10 else 1000 end;
select pgq.create_queue('many', set_size => 1);
select pgq.create_queue('full', set_size => 1);
create function pg_temp.fill() returns bigint language sql volatile as $$
    select count(i) from pgq.publish_batch(
        'many', array(select to_jsonb(i) from generate_series(1, 2000) i),
        dedup_keys => array(select 'k' || i from generate_series(1, 2000) i)) i $$;

select pg_temp.fill();
set local track_functions = 'all';
select pgq.purge('many');
select cmp_ok((select sum(calls) from pg_stat_xact_user_functions where schemaname = 'pgq'), '<=',
    500::numeric, 'purge calls functions once per slice, not once per message');
set local track_functions = 'none';
select is((select count(*) from pgq.dedup), 0::bigint, 'purge deletes the dedup keys');
select pg_temp.fill();
select cmp_ok(t.cost($$select pgq.purge('many')$$, 'dedup'), '<=', 2000::bigint + 100,
    'purge reads each dedup key once, not once per slice');
-- The other queue holds 500 other messages.
select pg_temp.fill();
select count(pgq.publish('full', to_jsonb(i))) from generate_series(1, 500) i;
select cmp_ok(t.cost($$select pgq.move('many', 'full')$$, 'ready'), '<=',
    2000::bigint * 3 + 1000,
    'move reads at most 7000 ready rows for 2000 messages and 500 in the other queue');
select is((select count(*) from pgq.message_state where queue = 'full'), 2500::bigint,
    'the other queue holds all messages after the move');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
