-- Dead letters are replayed or discarded.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '1 h', max_attempts => 2);
select pgq.create_queue('other', lease => '30 s', max_attempts => 1);

-- Makes dead letters of new messages.
create function pg_temp.fail(queue text, names text[], error text default null) returns void
language plpgsql as $$
begin
    perform pgq.publish(queue, to_jsonb(n), jsonb_build_object('name', n)) from unnest(names) n;
    perform pgq.bury(lease_id, error => fail.error)
    from (select distinct lease_id from pgq.claim(queue, n => cardinality(names))) l;
end
$$;

-- replay
select pg_temp.fail('work', '{a,b,c,d,e}');
select pg_temp.fail('other', '{o}');
select is(pgq.replay('work', dry_run => true), 5, 'a dry run of replay counts the dead letters');
select is(t.held('work', 'dead'), 'a b c d e', 'a dry run of replay changes nothing');
select is(pgq.replay('work', n => 2), 2, 'a replay takes at most n dead letters');
select is(t.take('work', n => 10), 'a b', 'the oldest dead letters are replayed first');
select is(t.held('work', 'dead'), 'c d e', 'the other dead letters stay');
select is(pgq.replay('work', '{"name": "d"}'), 1,
    'a replay takes the dead letters that match a filter');
select is(t.take('work', n => 10), 'd', 'only the dead letter that matches is delivered again');
select is((select attempt from pgq.lease l join pgq.message m on l.ids @> m.id
           where m.payload = '"d"'), 1, 'a replayed message starts with attempt 1');
select is(pgq.replay('work', '{"name": "zz"}'), 0, 'a replay without a match takes no dead letter');
select is(pgq.replay('work', '{"msg": {"attempt": 1}}', dry_run => true), 2,
    'a filter on the attempt tests the attempts of the dead letter');
select is((select string_agg(distinct queue, ' ' order by queue) from pgq.dead_letter),
    'other work', 'a dead letter names its queue');
select is(t.held('other', 'dead'), 'o', 'the dead letters of another queue stay');
select is(pgq.replay('work'), 2, 'a replay without a filter takes all dead letters');
select is(pgq.replay('work'), 0, 'a second replay finds no dead letters');
select is(t.take('work', n => 10), 'c e', 'replayed messages can be claimed');
select throws_ok(format('select pgq.%s(%s)', f, x), code, null, format('%s is refused: %s', f, x))
from unnest('{replay,discard}'::text[]) f,
     (values ($$'nowhere'$$, 'QU001'), ($$'work', n => 0$$, '22023'),
             ($$'work', n => -1$$, '22023'),
             ($$'work', '{"$what": 1}'$$, 'QU004')) r (x, code);

-- the record of a replayed message
select pg_temp.fail('work', '{r}', 'first error');
select pgq.replay('work');
select is((select array_agg(event order by event) from pgq.journal
           where ids @> (select max(id) from pgq.message)), '{bury,replay}'::text[],
    'the audit log shows the replay');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0', error => 'second error');
select max(lease_id) as lease from pgq.claim('work') \gset
select t.advance('1 s');
select pgq.nack(:lease, delay => '0', error => 'third error');
select is((select array[replay_count::text, attempts::text, reason, error] from pgq.dead_letter
           where payload = '"r"'), '{1,2,processing_error,third error}'::text[],
    'a replayed message that dies again shows how often it was replayed');
select is((select replayed_at from pgq.dead_letter where payload = '"r"'),
    pgq.now() - interval '1 s', 'a replayed message that dies again shows when it was replayed');
select is((select jsonb_path_query_array(failures, '$[*].outcome') from pgq.dead_letter
           where payload = '"r"'), '["bury", "replay", "nack", "nack"]',
    'a replayed message that dies again keeps all its failures');
select pgq.replay('work');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.bury(:lease);
select is((select replay_count from pgq.dead_letter where payload = '"r"'), 2,
    'every replay counts');
select pgq.replay('work');
select max(lease_id) as lease from pgq.claim('work') \gset
select is(pgq.ack(:lease), 1, 'a replayed message can be acknowledged');
select is(t.held('work', 'dead'), null, 'an acknowledged message is not a dead letter any more');

-- a message that is not in the log any more
select pgq.publish('work', '{"p": 1}', '{"h": 2}', priority => 4, sender => 's', recipient => 'r',
    reply_to => 'rt', correlation_id => 'c', dedup_key => 'd') as id \gset
create temp table original as select * from pgq.claim('work');
select pgq.bury(lease_id) from original;
select t.damage(format('delete from pgq.message_0 where id = %s', :id));
select is_empty(format('select from pgq.message where id = %s', :id),
    'the message is not in the log any more');
select is(pgq.replay('work'), 1,
    'a message that is not in the log is replayed from its dead letter');
select results_eq(
    $$select c.id, c.topic, c.priority, c.headers, c.payload, c.sender, c.recipient, c.reply_to,
             c.correlation_id, c.group_key, c.published_at, c.expires_at from pgq.claim('work') c$$,
    $$select c.id, c.topic, c.priority, c.headers, c.payload, c.sender, c.recipient, c.reply_to,
             c.correlation_id, c.group_key, c.published_at, c.expires_at from original c$$,
    'a message that is replayed from its dead letter has all its fields');
select is((select count(*) from pgq.message where id = :id), 1::bigint,
    'a message that is replayed from its dead letter is in the log again');
select is(t.take('other'), null, 'a replayed message is not delivered to another queue');

-- a message that has expired
select pgq.publish('work', '"old"', expires_in => '10 s');
select t.advance('11 s');
select is(t.take('work', '{"msg": {"expires_at": {"$lt": {"$now": "0 s"}}}}'), null,
    'an expired message is not delivered');
select is((select reason from pgq.dead_letter where payload = '"old"'), 'expired',
    'an expired message is a dead letter');
select is(pgq.replay('work'), 1, 'an expired dead letter can be replayed');
select is(t.peek('work'), 'old', 'peek shows a replayed message that has expired');
select max(lease_id) as lease
from pgq.claim('work', '{"msg": {"expires_at": {"$exists": true}}}') \gset
select is((select payload from pgq.leased(:lease)), '"old"',
    'a replayed message that has expired is delivered');
select pgq.nack(:lease, delay => '0');
select is(t.take('work'), 'old', 'a replayed message that has expired is retried');
select pgq.ack(lease_id) from (
    select distinct lease_id from pgq.lease join pgq.message on ids @> id
    where payload <> '"old"') l;
select t.advance('61 min');
select is(t.take('work'), null,
    'a replayed message that has expired is not delivered after its last attempt');
select is((select reason from pgq.dead_letter where payload = '"old"'), 'timeout',
    'a replayed message that has expired dies with the reason timeout');
select pgq.discard('work');

-- a replay that fails
select pg_temp.fail('work', '{x,y,z}');
alter table pgq.journal add constraint obstacle check (event <> 'replay') not valid;
select throws_ok($$select pgq.replay('work')$$, '23514', null,
    'a replay fails if the audit log cannot be written');
select is(t.held('work', 'dead'), 'x y z', 'a replay that fails keeps all dead letters');
select is(t.held('work', 'ready'), null, 'a replay that fails makes no message ready');
alter table pgq.journal drop constraint obstacle;
select is(pgq.replay('work'), 3, 'the dead letters can be replayed later');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.claim('work', n => 10)) l;

-- lanes
select pgq.create_queue('laned', '{name}');
select pg_temp.fail('laned', '{k,l}');
select pgq.replay('laned');
select is(t.take('laned', '{"name": "l"}', 10), 'l', 'a replayed message is in its lane');

-- discard
select pg_temp.fail('work', '{a,b,c,d}');
select is(pgq.discard('work', dry_run => true), 4, 'a dry run of discard counts the dead letters');
select is(t.held('work', 'dead'), 'a b c d', 'a dry run of discard removes nothing');
select is(pgq.discard('work', '{"name": {"$in": ["b", "c"]}}', 1), 1,
    'discard removes at most n dead letters that match');
select is(t.held('work', 'dead'), 'a c d', 'discard removes the oldest dead letters first');
select is(pgq.discard('work'), 3, 'discard without a filter removes all dead letters');
select is(t.held('work', 'dead'), null, 'no dead letter is left after discard');
select is((select sum(size) from pgq.journal where event = 'discard'), 5::bigint,
    'the audit log shows the discarded dead letters');
select is(pgq.discard('work'), 0, 'discard without dead letters removes nothing');
select is(t.held('other', 'dead'), 'o', 'discard keeps the dead letters of another queue');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
