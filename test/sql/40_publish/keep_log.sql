-- Published messages do not change, and every message in the log is delivered.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '1 day');
select pgq.create_queue('groups', lease => '1 day');
select pgq.publish('work', '"a"') as id \gset
select pgq.publish('groups', to_jsonb(i), group_key => 'g') from generate_series(1, 3) i;

-- direct changes of tables are refused, with a hint at the right function
create temp table change (statement text, hint text);
insert into change
select format(s, 'pgq.' || t), h
from unnest('{message,message_0,message_1,message_2}'::text[]) t,
    (values ('delete from %s', 'pgq.cancel.*pgq.purge'),
            ('delete from only %s where false', 'pgq.cancel.*pgq.purge'),
            ($$update %s set payload = '1'$$, 'Publish another'),
            ('truncate %s', 'pgq.purge')) x (s, h);
insert into change
select format('truncate pgq.%s', t), 'pgq.purge'
from unnest('{ready,scheduled,lease,group_head,group_line,letter}'::text[]) t;
select throws_ok(statement, '0A000', null, 'refused: ' || statement) from change;
select matches(t.hint_of(statement), hint, 'the error has a hint: ' || statement) from change;
select throws_ok(
    $q$do $$begin delete from pgq.message where published_at <= pgq.now(); end$$$q$,
    '0A000', null, 'a DELETE in code that calls functions of pgq is refused');
set local session_replication_role = replica;
select throws_ok('delete from pgq.message', '0A000', null,
    'a DELETE is refused with session_replication_role = replica');
reset session_replication_role;
select is(t.take('groups', n => 9), '1', 'refused changes leave a group as it was');

-- session_replication_role = replica
set local session_replication_role = replica;
select pgq.create_queue('picky');
select pgq.subscribe('picky', 'work', '{"kind": "x"}');
select pgq.publish('work', '"b"', '{"kind": "x"}');
select count(*) from pgq.publish_batch('work', '{"\"c\"","\"d\""}', delay => '1 s');
insert into pgq.message (topic, payload) values ('work', '"e"');
select throws_ok($$insert into pgq.message (topic, payload) values ('nowhere', '1')$$, 'QU005',
    null,
    'an INSERT in replica mode is refused if no queue receives the topic');
select t.advance('2 s');
select is(t.take('work', n => 9), 'a b c d e',
    'messages that are published in replica mode are delivered');
select is(t.take('picky', n => 9), 'b',
    'a subscription with a filter receives a message that is published in replica mode');
select pgq.drop_queue('picky', force => true);
select is_empty('select from pgq.binding b where not exists (
    select from pgq.queue q where q.queue_id = b.queue_id)',
    'a queue that is dropped in replica mode leaves no binding');
reset session_replication_role;

-- an INSERT into a partition is refused, because it would not be routed
select throws_ok(format('insert into pgq.message_%s (%s) values (%s)', i, c, v), '0A000', null,
    format('refused: an INSERT of %s into partition %s', c, i))
from generate_series(0, 2) i,
    (values ('era, topic, payload', format($$%s, 'work', '1'$$, 0)),
            ('id, era, topic, payload', format($$nextval('pgq.message_id'), %s, 'work', '1'$$, 0)),
            ('id, era, topic, payload, published_at',
             format($$nextval('pgq.message_id'), %s, 'work', '1', now()$$, 0))) x (c, v);
select matches(t.hint_of($$insert into pgq.message_0 (topic, payload) values ('work', '1')$$),
    'pgq.message', 'the error of an INSERT into a partition has a hint at pgq.message');

-- ids that the caller chooses
select throws_ok(format(
    $$insert into pgq.message (id, topic, payload) values (%s, 'work', '1')$$, i), '22023', null,
    format('id %s is refused', i))
from unnest(array[-1, 0, (select last_value + 1 from pgq.message_id), 562949953421312,
                  9223372036854775807]) i;
select throws_ok(format(
    $$insert into pgq.message (id, topic, payload) values (%s, 'work', '1')$$, :id), '23505', null,
    'an id of the log cannot be used again');
select setval('pgq.era_number', 1);
select throws_ok(format(
    $$insert into pgq.message (id, topic, payload) values (%s, 'work', '1')$$, :id), '23505', null,
    'an id of the log cannot be used again in another era');
select throws_ok(
    $$insert into pgq.message (era, topic, payload) values (2, 'work', '1')$$, '22023', null,
    'an era that is not the current one is refused');
insert into pgq.message (id, topic, payload) values (nextval('pgq.message_id'), 'work', '"own"');
select is(t.take('work', n => 9), 'own', 'a message with an id from the sequence is delivered');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
