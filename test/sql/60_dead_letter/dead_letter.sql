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
select is(pgq.replay('work', dry_run => true), 5, 'a dry run counts');
select is(t.held('work', 'dead'), 'a b c d e', 'and changes nothing');
select is(pgq.replay('work', n => 2), 2, 'a replay can be limited');
select is(t.take('work', n => 10), 'a b', 'the oldest come back first');
select is(t.held('work', 'dead'), 'c d e', 'the others stay');
select is(pgq.replay('work', '{"name": "d"}'), 1, 'a replay can be filtered');
select is(t.take('work', n => 10), 'd', 'and only what matches comes back');
select is((select attempt from pgq.lease l join pgq.message m on l.ids @> m.id
           where m.payload = '"d"'), 1, 'with all its attempts again');
select is(pgq.replay('work', '{"name": "zz"}'), 0, 'no match is no replay');
select is(pgq.replay('work', '{"msg": {"attempt": 1}}', dry_run => true), 2,
    'the attempts of a dead letter are those that it had');
select is(t.held('other', 'dead'), 'o', 'another queue''s dead letters are its own');
select is(pgq.replay('work'), 2, 'without anything else all come back');
select is(pgq.replay('work'), 0, 'then there are none');
select is(t.take('work', n => 10), 'c e', 'they can be claimed');
select throws_ok(format('select pgq.%s(%s)', f, x), code, null, format('%s is refused: %s', f, x))
from unnest('{replay,discard}'::text[]) f,
     (values ($$'nowhere'$$, 'QU001'), ($$'work', n => 0$$, '22023'),
             ($$'work', n => -1$$, '22023'),
             ($$'work', '{"$what": 1}'$$, 'QU004')) r (x, code);

-- what a replayed message remembers
select pg_temp.fail('work', '{r}', 'first error');
select pgq.replay('work');
select is((select array_agg(event order by event) from pgq.journal
           where ids @> (select max(id) from pgq.message)), '{bury,replay}'::text[],
    'the journal knows of the replay');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.nack(:lease, delay => '0', error => 'second error');
select max(lease_id) as lease from pgq.claim('work') \gset
select t.advance('1 s');
select pgq.nack(:lease, delay => '0', error => 'third error');
select is((select array[replay_count::text, attempts::text, reason, error] from pgq.dead_letter
           where payload = '"r"'), '{1,2,processing_error,third error}'::text[],
    'what fails again says how often it was replayed');
select is((select replayed_at from pgq.dead_letter where payload = '"r"'),
    pgq.now() - interval '1 s', 'and when');
select is((select jsonb_path_query_array(failures, '$[*].outcome') from pgq.dead_letter
           where payload = '"r"'), '["bury", "replay", "nack", "nack"]',
    'it has its whole history');
select pgq.replay('work');
select max(lease_id) as lease from pgq.claim('work') \gset
select pgq.bury(:lease);
select is((select replay_count from pgq.dead_letter where payload = '"r"'), 2,
    'every replay counts');
select pgq.replay('work');
select max(lease_id) as lease from pgq.claim('work') \gset
select is(pgq.ack(:lease), 1, 'what succeeds in the end is done');
select is(t.held('work', 'dead'), null, 'and no dead letter');

-- a message that the log has forgotten
select pgq.publish('work', '{"p": 1}', '{"h": 2}', priority => 4, sender => 's', recipient => 'r',
    reply_to => 'rt', correlation_id => 'c', dedup_key => 'd') as id \gset
create temp table original as select * from pgq.claim('work');
select pgq.bury(lease_id) from original;
select t.damage(format('delete from pgq.message_0 where id = %s', :id));
select is_empty(format('select from pgq.message where id = %s', :id), 'the log has forgotten it');
select is(pgq.replay('work'), 1, 'it is replayed from the dead letter');
select results_eq(
    $$select c.id, c.topic, c.priority, c.headers, c.payload, c.sender, c.recipient, c.reply_to,
             c.correlation_id, c.group_key, c.published_at, c.expires_at from pgq.claim('work') c$$,
    $$select c.id, c.topic, c.priority, c.headers, c.payload, c.sender, c.recipient, c.reply_to,
             c.correlation_id, c.group_key, c.published_at, c.expires_at from original c$$,
    'as it was');
select is((select count(*) from pgq.message where id = :id), 1::bigint, 'it is in the log again');
select is(t.take('other'), null, 'and went to nobody else');

-- a message that has expired
select pgq.publish('work', '"old"', expires_in => '10 s');
select t.advance('11 s');
select is(t.take('work', '{"msg": {"expires_at": {"$lt": {"$now": "0 s"}}}}'), null,
    'an expired message is not delivered');
select is((select reason from pgq.dead_letter where payload = '"old"'), 'expired',
    'it is a dead letter');
select is(pgq.replay('work'), 1, 'it can be replayed all the same');
select is(t.peek('work'), 'old', 'then it is there to be seen');
select max(lease_id) as lease
from pgq.claim('work', '{"msg": {"expires_at": {"$exists": true}}}') \gset
select is((select payload from pgq.leased(:lease)), '"old"', 'and delivered');
select pgq.nack(:lease, delay => '0');
select is(t.take('work'), 'old', 'and tried again if it fails');
select pgq.ack(lease_id) from (
    select distinct lease_id from pgq.lease join pgq.message on ids @> id
    where payload <> '"old"') l;
select t.advance('61 min');
select is(t.take('work'), null, 'as often as any other');
select is((select reason from pgq.dead_letter where payload = '"old"'), 'timeout',
    'it ends as any other');
select pgq.discard('work');

-- half way
select pg_temp.fail('work', '{x,y,z}');
alter table pgq.journal add constraint obstacle check (event <> 'replay') not valid;
select throws_ok($$select pgq.replay('work')$$, '23514', null, 'a replay fails half way');
select is(t.held('work', 'dead'), 'x y z', 'then all dead letters are still there');
select is(t.held('work', 'ready'), null, 'and nothing is ready');
alter table pgq.journal drop constraint obstacle;
select is(pgq.replay('work'), 3, 'and can be replayed later');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.claim('work', n => 10)) l;

-- lanes
select pgq.create_queue('laned', '{name}');
select pg_temp.fail('laned', '{k,l}');
select pgq.replay('laned');
select is(t.take('laned', '{"name": "l"}', 10), 'l', 'a replayed message is in its lane');

-- discard
select pg_temp.fail('work', '{a,b,c,d}');
select is(pgq.discard('work', dry_run => true), 4, 'a dry run counts');
select is(t.held('work', 'dead'), 'a b c d', 'and discards nothing');
select is(pgq.discard('work', '{"name": {"$in": ["b", "c"]}}', 1), 1,
    'what matches is discarded, as many as asked for');
select is(t.held('work', 'dead'), 'a c d', 'the oldest first');
select is(pgq.discard('work'), 3, 'or everything');
select is(t.held('work', 'dead'), null, 'then nothing is left');
select is((select sum(size) from pgq.journal where event = 'discard'), 5::bigint,
    'the journal knows of what was discarded');
select is(pgq.discard('work'), 0, 'nothing is nothing');
select is(t.held('other', 'dead'), 'o', 'another queue keeps its own');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
