-- Functions of workers read no table sequentially, even if it was empty when it was analyzed: it
-- may be full of dead rows while a snapshot is held.
begin;
select no_plan();
select t.at(now());

create function pg_temp.whole_tables() returns table (name text, scans bigint)
language sql volatile as $$
    select c.oid::regclass::text, pg_stat_get_xact_numscans(c.oid)
    from pg_class c
    where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r'
      -- These do not grow with the messages.
      and c.oid not in ('pgq.queue'::regclass, 'pgq.binding'::regclass, 'pgq.routing'::regclass,
                        'pgq.route'::regclass, 'pgq.era'::regclass, 'pgq.mutex'::regclass,
                        'pgq.archive'::regclass, 'pgq.filter'::regclass,
                        'pgq.stream'::regclass, 'pgq.writer'::regclass)
$$;
-- The tables that a statement scans sequentially.
create function pg_temp.reads(statement text) returns text language plpgsql as $$
declare
    v_names text;
begin
    create temp table before as select * from pg_temp.whole_tables();
    execute statement;
    select string_agg(n.name, ', ' order by n.name) into v_names
    from pg_temp.whole_tables() n join before b using (name) where n.scans > b.scans;
    drop table before;
    return v_names;
end
$$;
create function pg_temp.token(topic text, n int default 1) returns bigint
language sql volatile as $$
    select lease_id from pgq.claim(topic, n => n)
$$;

select pgq.create_queue('plain');
select pgq.create_queue('laned', '{colour}');
select pgq.create_queue('grouped');
select pgq.claim('plain');  -- begins the first era, which asks whether there is any message
analyze;
select is(pg_temp.reads('select count(*) from pgq.lease'), 'pgq.lease',
    'the test detects a sequential scan');

create temp table call (statement text);
insert into call values
    ($$select pgq.publish('plain', '1')$$),
    ($$select pgq.publish('plain', '1', dedup_key => 'k')$$),
    ($$select pgq.publish('plain', '1', dedup_key => 'k')$$),
    ($$select pgq.publish('plain', '1', delay => '1 s')$$),
    ($$select pgq.publish_batch('plain', array_fill('1'::jsonb, '{100}'))$$),
    ($$select pgq.publish('laned', '1', '{"colour": "red"}')$$),
    ($$select pgq.publish('grouped', '1', group_key => 'g') from generate_series(1, 9)$$),
    ($$select pgq.ack(pg_temp.token('plain'))$$),
    ($$select pgq.ack(pg_temp.token('plain', 10))$$),
    ($$select pgq.ack(pg_temp.token('plain', 10))$$),
    ($$select pgq.ack(min(lease_id), array_agg(id)) from pgq.claim('plain', n => 2)$$),
    ($$select pgq.ack(min(lease_id), array[min(id)]) from pgq.claim('plain', n => 2)$$),
    ($$select pgq.claim('plain', n => 2, done => pg_temp.token('plain'))$$),
    ($$select pgq.ack(lease_id) from pgq.claim('laned', '{"colour": "red"}')$$),
    ($$select pgq.claim('laned', '{"colour": "blue"}')$$),
    ($$select pgq.claim('plain', '{"payload.x": 1}')$$),
    ($$select pgq.ack(pg_temp.token('grouped'))$$),
    ($$select pgq.nack(pg_temp.token('grouped'), delay => '0')$$),
    ($$select pgq.bury(pg_temp.token('grouped'))$$),
    ($$select pgq.nack(pg_temp.token('plain'), delay => '0')$$),
    ($$select pgq.nack(pg_temp.token('plain'), delay => '1 s')$$),
    ($$select pgq.bury(pg_temp.token('plain'), error => 'e')$$),
    ($$select pgq.release(pg_temp.token('plain'))$$),
    ($$select pgq.release(pg_temp.token('plain'), delay => '1 s')$$),
    ($$select pgq.extend(pg_temp.token('plain'))$$),
    ($$select pgq.leased(pg_temp.token('plain', 5))$$),
    ($$select pgq.lease_parts(pg_temp.token('plain', 5))$$),
    ($$select pgq.hold('plain', 'name', n => 5)$$),
    ($$select pgq.claim('plain', key => 'name')$$),
    ($$select pgq.named_lease('plain', 'name')$$),
    ($$select pgq.backlog('plain')$$),
    ($$select pgq.seen('handler', 1)$$),
    ($$select pgq.peek('plain', n => 5)$$),
    ($$select pgq.wait_begin('plain', 'w') from generate_series(1, 3)$$),
    ($$select pgq.wait_end('plain', 'w')$$),
    ($$select t.advance('2 s'), pgq.claim('plain', n => 3)$$),
    ($$select t.advance('1 h'), pgq.claim('plain', n => 3)$$),
    ($$select pgq.stream_begin('plain', 'c', 'o', lease => '1 min')$$),
    ($$select pgq.stream_claim('plain', 'c', 'o', 1, n => 5)$$),
    ($$select pgq.stream_batch('plain', 'c', 1)$$),
    ($$select pgq.stream_claim('plain', 'c', 'o', 2, n => 5)$$),
    ($$select pgq.stream_finish('plain', 'c', 'o', 2)$$),
    ($$select pgq.stream_end('plain', 'c', 'o')$$),
    ($$select pgq.publish('plain', '1', reply_to => 'plain', correlation_id => 'c')$$),
    ($$select pgq.reply(max(id), '1') from pgq.message where reply_to is not null$$),
    ($$select pgq.replies('c')$$),
    ($$select pgq.publish_staged(array[gen_random_uuid()])$$),
    ($$select pgq.discard_staged(array[gen_random_uuid()])$$),
    ($$select pgq.writer_epoch('w')$$);
select is(pg_temp.reads(statement), null, statement) from call;

select * from finish();
rollback;
