-- Dead letters are selected by their cause, and replayed to another queue, slowly or changed.
begin;
select no_plan();
select t.at('2030-01-31 12:00:00+00');
select pgq.create_queue('work', lease => '1 h', max_attempts => 1);
select pgq.create_queue('other');
create function pg_temp.fail(name text, error text, how text default 'nack') returns void
language plpgsql as $$
declare
    v_lease bigint;
begin
    perform pgq.publish('work', jsonb_build_object('name', name, 'deep', '{"a": 1, "b": 2}'::jsonb),
                        jsonb_build_object('name', name));
    select lease_id into v_lease from pgq.claim('work');
    if how = 'nack' then
        perform pgq.nack(v_lease, error => fail.error);
    else
        perform pgq.bury(v_lease, error => fail.error);
    end if;
end
$$;
create function pg_temp.names(queue text, state text) returns text language sql as $$
    select string_agg(coalesce(m.payload, d.payload) ->> 'name', ' ' order by s.id)
    from pgq.message_state s left join pgq.message m on m.id = s.id
    left join pgq.dead_letter d on d.message_id = s.id and s.state = 'dead'
    where s.queue = names.queue and s.state = names.state $$;
select pg_temp.fail('a', 'HTTP 404: user 12');
select t.advance('1 min');
select pg_temp.fail('b', 'HTTP 500');
select pg_temp.fail('c', 'HTTP 404: user 13', 'bury');
select t.advance('1 min');
select pg_temp.fail('d', null);

-- cause
select is(pgq.replay('work', dry_run => true, cause => c::jsonb), n, c) from (values
    ('{"error": {"$like": "HTTP 404%"}}', 2), ('{"reason": "rejected"}', 1),
    ('{"reason": "max_attempts"}', 1), ('{"attempts": {"$gte": 2}}', 0),
    ('{"failed_at": {"$gte": "2030-01-31T12:01"}}', 3),
    ('{"failed_at": {"$lt": "2030-01-31T12:01"}}', 1),
    ('{"$or": [{"reason": "rejected"}, {"error": "HTTP 500"}]}', 2),
    ('{"error": {"$isNull": true}}', 1), ('{"replay_count": 0}', 4), ('{}', 4)) v (c, n);
select is(pgq.replay('work', '{"name": "a"}', cause => '{"reason": "rejected"}'), 0,
    'a dead letter is replayed only if both filter and cause match');
select is(pgq.replay('work', n => 1, cause => '{"error": {"$like": "HTTP 404%"}}'), 1,
    'a replay by cause takes at most n dead letters');
select is(pg_temp.names('work', 'ready'), 'a',
    'a replay by cause takes the oldest dead letters first');
select pgq.purge('work');
select is(pgq.discard('work', cause => '{"reason": "rejected"}', dry_run => true), 1,
    'a dry run of discard counts by cause');
select is(pgq.discard('work', cause => '{"reason": "rejected"}'), 1,
    'discard removes dead letters by cause');
select is(pg_temp.names('work', 'dead'), 'b d', 'dead letters with other causes stay');
select throws_ok(format('select pgq.%s(''work'', %s)', f, x), code, null, f || ' ' || x)
from unnest('{replay,discard}'::text[]) f, (values
    ($$cause => '{"err": "x"}'$$, 'QU004'), ($$cause => '{"payload.x": 1}'$$, 'QU004'),
    ($$cause => '{"$or": [{"reason": "a"}, {"type": "x"}]}'$$, 'QU004'),
    ($$cause => '{"error": {"$what": 1}}'$$, 'QU004')) v (x, code);

-- to another queue
select is(pgq.replay('work', to_queue => 'other', dry_run => true), 2,
    'a dry run counts the dead letters for another queue');
select is(pgq.replay('work', '{"name": "b"}', to_queue => 'other'), 1,
    'a dead letter is replayed to another queue');
select is(pg_temp.names('other', 'ready'), 'b', 'the replayed message is ready in the other queue');
select is((select string_agg(queue || ' ' || event || coalesce(' ' || note, ''), ', ')
           from pgq.history((select max(m.id) from pgq.message m where m.payload ->> 'name' = 'b'))
           where event in ('replay', 'arrive')), 'work replay to other, other arrive from work',
               'the history shows the replay and the arrival');
select is_empty('select * from pgq.check()', 'the state is sound');
select throws_ok(format('select pgq.replay(''work'', %s)', x), code, null, x) from (values
    ('to_queue => ''work''', '22023'), ('to_queue => ''nowhere''', 'QU001'),
    ('per_second => 0', '22023')) v (x, code);

-- a message that the other queue has already
select pgq.subscribe('copy', 'work');
select pg_temp.fail('e', 'x');
select is(pgq.replay('work', '{"name": "e"}', to_queue => 'copy'), 0,
    'a dead letter is not replayed to a queue that holds the message');
select is(pgq.purge('copy'), 1::bigint, 'the message is purged from the other queue');
select is(pgq.replay('work', '{"name": "e"}', to_queue => 'copy'), 1,
    'a dead letter is replayed to a queue that does not hold the message any more');
select is_empty('select * from pgq.check()', 'the state is sound');

-- replay with a patch
select is(pgq.replay('work', '{"name": "d"}',
    patch => '{"fixed": true, "deep": {"a": null, "c": 3}}'), 1,
    'a dead letter is replayed with a patch');
select is((select m.payload from pgq.message m join pgq.message_state s using (id)
           where s.queue = 'work' and s.state = 'ready' and m.payload ? 'fixed'),
    '{"name": "d", "deep": {"b": 2, "c": 3}, "fixed": true}',
    'the payload is changed by a JSON merge patch');
select is((select count(*) from pgq.message where payload ->> 'name' = 'd'), 2::bigint,
    'a patched dead letter is a new message');
select is(pgq.purge('work'), 1::bigint, 'a patched message can be purged');
select pg_temp.fail('again', 'no');
select pgq.replay('work', patch => '"text"');
select pgq.bury(lease_id) from pgq.claim('work');
select is((select array[replay_count::text, jsonb_path_query_first(failures,
    '$[*] ? (@.outcome == "replay").error') #>> '{}']
           from pgq.dead_letter d where payload = '"text"'),
    array['1', 'changed from message ' || (select max(id) from pgq.message
        where payload ->> 'name' = 'again')],
    'a patched message that dies again names the message that it was made from');
select pgq.discard('work');

-- replay at a limited rate
select pg_temp.fail(n, 'x') from unnest('{s1,s2,s3,s4,s5}'::text[]) n;
select is(pgq.replay('work', per_second => 2), 5,
    'a replay with per_second takes all dead letters');
select results_eq(
    $$select state, count(*), until - pgq.now() from pgq.message_state where queue = 'work'
      group by 1, 3 order by 3 nulls first$$,
    $$values ('ready', 2::bigint, null::interval), ('delayed', 2, '1 s'), ('delayed', 1, '2 s')$$,
        'a replay with per_second spreads the messages over seconds');
select t.advance('1 s');
select is((select count(*) from pgq.claim('work', n => 9)), 4::bigint,
    'messages of the next second can be claimed a second later');
select is_empty('select * from pgq.check()', 'the state is sound');

-- groups
select pgq.create_queue('line', max_attempts => 1, on_dead => 'block');
select pgq.publish('line', to_jsonb(n), jsonb_build_object('name', n), group_key => 'g')
    from unnest('{g1,g2,g3}'::text[]) n;
select pgq.nack(lease_id, error => 'x') from pgq.claim('line');
select is(pgq.replay('line', patch => '"g1 fixed"'), 1,
    'a dead letter that blocks its group is replayed with a patch');
select is(t.held('line', 'ready') || '/' || t.held('line', 'waiting'), 'g1 fixed/g2 g3',
    'a patched message is the head of its group');
select is_empty('select * from pgq.check()', 'the group is sound');
select pgq.nack(lease_id, error => 'x') from pgq.claim('line');
select is(pgq.replay('line', to_queue => 'other'), 1,
    'a dead letter that blocks its group is replayed to another queue');
select is(t.held('line', 'ready') || '/' || t.held('line', 'waiting'), 'g2/g3',
    'the group continues after its dead letter was replayed to another queue');
select pgq.nack(lease_id, error => 'x') from pgq.claim('line');
select is(pgq.replay('line', per_second => 1), 1,
    'a dead letter that blocks its group is replayed with per_second');
select is_empty('select * from pgq.check()', 'the group is sound');
select * from finish();
rollback;
