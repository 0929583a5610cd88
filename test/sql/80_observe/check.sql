-- pgq.check() finds invalid states and names the queue. The test creates each state as a
-- superuser.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work'), pgq.create_queue('other');
select pgq.create_queue('orders');
select pgq.subscribe('big', 'work', '{"size": {"$gt": 10}}');
select min(id) as first from pgq.publish_batch('work', '{1,2,3,4}') b (id) \gset
select pgq.publish('work', '5', '{"size": 50}') as big \gset
select pgq.publish('other', '6') as other \gset
select pgq.publish('orders', to_jsonb(i), group_key => 'customer 7') from generate_series(1, 3) i;
select lease_id as lease from pgq.claim('work', n => 2) limit 1 \gset
select lease_id as other_lease from pgq.claim('other') \gset
call pgq.maintain();
select isnt((select routed_at from pgq.maintenance), null, 'maintain() sets routed_at');
-- check() examines messages since routed_at. All messages of this transaction are from now().
update pgq.maintenance set routed_at = now();
select is_empty('select * from pgq.check()', 'nothing is broken');

create function pg_temp.found(planting text) returns text language plpgsql as $$
declare
    v_found text;
begin
    begin
        execute planting;
        select string_agg(format('%s | %s | %s', problem, queue, detail), E'\n'
                          order by problem, queue) into v_found from pgq.check();
        raise exception 'undo' using errcode = 'ZZ000';
    exception when sqlstate 'ZZ000' then
        return v_found;
    end;
end
$$;

-- tokens
select matches(
    pg_temp.found(format('update pgq.lease set lease_id = %s, part = 1 where lease_id = %s',
                         :lease, :other_lease)),
    format('a token belongs to two leases \| work \| lease %s, 2 parts', :lease),
    'check() finds a token that leases of two queues share');
select matches(
    pg_temp.found(format(
        'insert into pgq.lease select lease_id, claimed_at + interval ''1 s'', until, queue_id, 2,
             attempt, 1, grouped, journal, ''someone else'', client, key, failures,
             int8multirange(int8range(%1$s, %1$s + 1))
         from pgq.lease where lease_id = %2$s', :first + 2, :lease)),
    'a token belongs to two leases \| work',
    'check() finds a token that two leases of one queue share');
select matches(
    pg_temp.found(format(
        'drop index pgq.lease_id_idx; insert into pgq.lease select * from pgq.lease
         where lease_id = %s', :lease)),
    'a token belongs to two leases \| work', 'check() finds a duplicate lease row');

-- leases and sets without messages
select is(
    pg_temp.found(format('update pgq.lease set ids = ids + ''{[900,902)}'', size = size + 2
                          where lease_id = %s', :lease)),
    format('a lease has ids of no message | work | lease %s: {[900,902)}', :lease),
    'check() finds a lease with ids of no message');
select is(
    pg_temp.found('update pgq.ready set ids = ids + ''{[900,901)}'', size = size + 1
                   where queue_id = (select queue_id from pgq.queue where name = ''big'')'),
    'a set has ids of no message | big | ready {[900,901)}',
    'check() finds a ready row with ids of no message');

-- messages that no queue can deliver
create table seen_by_hand (what text, planting text, problem text);
insert into seen_by_hand values
    ('a message whose ready row was deleted by hand',
     'delete from pgq.ready where queue_id = (select queue_id from pgq.queue where name = ''work'')
          and ids @> 3::bigint',
     'a message is nowhere in a queue that receives it \| work \| messages'),
    ('a message whose lease was deleted by hand',
     'delete from pgq.lease
      where queue_id = (select queue_id from pgq.queue where name = ''other'')',
     'a message is nowhere in a queue that receives it \| other \| messages'),
    ('a message that was published without the trigger',
     'alter table pgq.message disable trigger user;
      insert into pgq.message (topic, payload) values (''other'', ''7'')',
     'a message is nowhere in a queue that receives it \| other \| messages'),
    ('a message that is not in a queue although its filter matches',
     'delete from pgq.ready where queue_id = (select queue_id from pgq.queue where name = ''big'')',
     'a message is nowhere in a queue that receives it \| big \| messages');
select matches(pg_temp.found(planting), problem, 'check() finds ' || what) from seen_by_hand;

-- groups
select matches(
    pg_temp.found('delete from pgq.ready where grouped'),
    'the head of a group is nowhere \| orders \| group customer 7, message \d+',
    'check() finds a group whose head is nowhere');
select matches(
    pg_temp.found('delete from pgq.group_head'),
    'a group has a line and no head \| orders \| group customer 7',
    'check() finds a group without a head');

-- a queue that is gone
select matches(pg_temp.found('update pgq.ready set queue_id = 999 where grouped'),
    'a set belongs to no queue \| number 999 \| ready', 'check() finds a set of no queue');

-- Messages that may be missing are no defect.
select pgq.ack(:lease);
select is_empty('select * from pgq.check()', 'an acknowledged message is no problem');
select pgq.bury(:other_lease, error => 'poison');
select is_empty('select * from pgq.check()', 'a dead letter is no problem');
select pgq.discard('other');
select is_empty('select * from pgq.check()', 'a discarded message is no problem');
select pgq.publish('other', '8', expires_in => '1 s');
select t.advance('2 s'), pgq.claim('other');
select is_empty('select * from pgq.check()', 'an expired message is no problem');
select pgq.publish('other', '9', dedup_key => 'k'), pgq.publish('other', '9', dedup_key => 'k');
insert into pgq.message (topic, payload, dedup_key) values ('other', '9', 'k');
insert into pgq.message (topic, payload, deliver_at) values ('other', '10', 'infinity');
select is_empty('select * from pgq.check()',
    'duplicates and messages that are stored for nobody are no problem');
select pgq.subscribe('late', 'work');
select is_empty('select * from pgq.check()', 'messages from before a subscription are no problem');
select pgq.alter_queue('other', journal => 'failures');
call pgq.maintain();
update pgq.maintenance set routed_at = now() + interval '1 s';
insert into pgq.message (topic, payload, published_at)
values ('other', '11', now() + interval '1 min');
select pgq.ack(lease_id) from pgq.claim('other', n => 10) limit 1;
select is_empty('select * from pgq.check()',
    'messages that a queue acknowledged without a record are no problem');
select * from finish();
rollback;
