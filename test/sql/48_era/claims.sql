-- Claims never rotate the log, so a slot that is due does not slow them down. A burst that is over
-- neither slows claims down nor stops the rotation. Not in one transaction: see era.sql.
select no_plan();
select t.at(now());
-- The pages that a statement reads and writes, and the WAL that it makes, as EXPLAIN counts them.
create function pg_temp.cost(statement text, i int, out pages bigint, out wal bigint)
language plpgsql as $$
declare
    v_plan jsonb;
begin
    execute 'explain (analyze, buffers, wal, timing off, format json) ' || statement into v_plan;
    select sum(v.value::bigint) into pages
    from jsonb_each_text(v_plan -> 0 -> 'Plan') v
    where v.key ~ '^Shared (Hit|Read|Dirtied|Written) Blocks$';
    wal := v_plan -> 0 -> 'Plan' ->> 'WAL Bytes';
end
$$;
create function pg_temp.emptied() returns bigint language sql
return (select count(*) from pgq.era where emptied_at is not null);

-- a slot is due, and holds many large messages that were never claimed
select pgq.create_queue('busy', lease => '5 s', retention => '1 s'),
       pgq.create_queue('stuck', retention => '1 s');
call pgq.maintain();
select pgq.publish('busy', to_jsonb(i)) from generate_series(1, 10) i;
create temp table before as
select c.* from generate_series(1, 4) i, pg_temp.cost($$select * from pgq.claim('busy')$$, i) c;
insert into pgq.message (topic, payload)
select 'stuck', to_jsonb(string_agg(md5(i || ' ' || j), ''))
from generate_series(1, 2000) i, generate_series(1, 250) j group by i;
select t.advance('2 s');
call pgq.maintain(until_done => false);
select pgq.publish('busy', '"next"');
select t.advance('2 s');
select is((select count(*) from pgq.era e join pgq.era n on n.number = e.number + 1
           where e.emptied_at is null and n.started_at + interval '1 s' <= pgq.now()), 1::bigint,
    'a slot is due to be emptied');
select era, count(*) as messages from pgq.message where topic = 'stuck' group by 1 \gset
create temp table due as
select c.* from generate_series(1, 4) i, pg_temp.cost($$select * from pgq.claim('busy')$$, i) c;
select cmp_ok((select sum(pages) from due), '<=', 2 * (select sum(pages) from before),
    'claims read at most twice as many pages while a slot is due');
select cmp_ok((select sum(wal) from due), '<=', 2 * (select sum(wal) from before) + 100000,
    'claims write hardly more WAL while a slot is due (8 kB for the first change of a page)');
select is((select count(*) from pgq.message where era = :era and topic = 'stuck'),
    :messages::bigint, 'claims copy no message forward');
select is((select distinct lease_until - pgq.now() from pgq.claim('busy')), interval '5 s',
    'a claim has the lease duration of the queue while a slot is due');
select is(pg_temp.emptied(), 0::bigint, 'claims empty no slot');
call pgq.maintain();
call pgq.maintain();
select is(pg_temp.emptied(), 1::bigint, 'maintain() empties the slot');
select is((select count(*) from pgq.message where topic = 'stuck'), :messages::bigint,
    'maintain() copies the unfinished messages of the slot forward');
select pgq.drop_queue('stuck', force => true), pgq.drop_queue('busy', force => true);

-- a burst: pgq.ready keeps its size, because it is never truncated
select pgq.create_queue('burst', retention => '1 s');
select queue_id from pgq.queue where name = 'burst' \gset
insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, failures, ids)
select :queue_id, i, 0, 1, pg_current_xact_id(), false, to_jsonb(f.text), '{}'
from (select string_agg(md5(j::text), '') as text from generate_series(1, 58) j) f,
     generate_series(1, 40000) i;
delete from pgq.ready;
vacuum pgq.ready;
select cmp_ok(pg_relation_size('pgq.ready'), '>', 64 * 1024 * 1024::bigint,
    'pgq.ready is large and empty');
select pgq.publish('burst', to_jsonb(i)) from generate_series(1, 10) i;
select is((select count(*) from pgq.claim('burst')), 1::bigint, 'a claim works after the burst');
select cmp_ok((select sum(c.pages) from generate_series(1, 4) i,
                   pg_temp.cost($$select * from pgq.claim('burst')$$, i) c),
    '<=', 2 * (select sum(pages) from before),
    'claims after the burst read at most twice as many pages as before');
create temp table number as select last_value as number from pgq.era_number;
do $$
begin
    for i in 1 .. 4 loop
        perform pgq.publish('burst', '1');
        perform t.advance('2 s');
        for step in 1 .. 5 loop
            call pgq.maintain();
            commit;
        end loop;
    end loop;
end
$$;
select cmp_ok((select last_value from pgq.era_number), '>=', (select number + 3 from number),
    'the log rotates after the burst');
select cmp_ok((select max(emptied_at) from pgq.era), '>=', pgq.now() - interval '5 s',
    'slots are emptied after the burst');
select is((select count(*) from pgq.claim('burst', n => 100)), 9::bigint, 'no message is lost');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
