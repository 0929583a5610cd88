-- Arithmetic of id sets, ranks and tokens.
begin;
select no_plan();

-- sets
select is(pgq._set_of('{3,1,2}'), '{[1,4)}', 'neighbours make one range, whatever their order');
select is(pgq._set_of('{1,5,1,null,5}'), '{[1,2),[5,6)}', 'a set has each id once and no null');
select is(pgq._set_of('{}'), '{}', 'no ids make the empty set');
select is(pgq._set_size('{}'), 0, 'the empty set has size 0');
select is(pgq._set_size('{[7,8)}'), 1, 'one id has size 1');
select is(pgq._set_size('{[1,4),[10,12),[20,21)}'), 6, 'the ranges of a set add up');
select is(pgq._first_ids('{[1,10)}', 3), '{[1,4)}', 'the first ids of a range');
select is(pgq._first_ids('{[1,10)}', 9), '{[1,10)}', 'all ids of a range');
select is(pgq._first_ids('{[1,10)}', 1000), '{[1,10)}', 'a range has no more first ids than ids');
select is(pgq._first_ids('{[1,3),[5,8),[9,10)}', 4), '{[1,3),[5,7)}',
    'the first ids of a set with gaps');
select is(pgq._first_ids('{[1,3),[5,8),[9,10)}', 5), '{[1,3),[5,8)}',
    'the first ids can end with a whole range');
select is(pgq._first_ids('{[1,3),[5,8),[9,10)}', 100), '{[1,3),[5,8),[9,10)}',
    'all ids of a set with gaps');
select is(pgq._first_ids('{[1,3),[5,8)}', 0), '{}', 'the first 0 ids are none');
select is(pgq._first_ids('{}', 5), '{}', 'the first ids of the empty set are none');
select is(
    pgq._first_ids(pgq._set_of(array(select generate_series(1, 2000, 2))), 700),
    pgq._set_of(array(select generate_series(1, 1399, 2))),
    'the first ids of a set of a thousand ranges');

-- The ranges of the log in which to read the messages of a set.
create function pg_temp.spans(ids int8multirange) returns text language sql return (
    select string_agg(
        format('%s-%s%s', s.first, s.behind, case when s.among = ids then '!' end), ' ')
    from pgq._spans(ids, pgq._set_size(ids)) s);
select is(pg_temp.spans('{[1,101)}'), '1-101', 'a set without gaps is read as one range');
select is(pg_temp.spans('{[1,10),[11,20),[21,30)}'), '1-30!',
    'a set with small gaps is read as one range');
select is(pg_temp.spans('{[1,2),[5,6),[8,9)}'), '1-9!',
    'a set that has at least a quarter of the ids of its range is read as one range');
select is(pg_temp.spans('{[1,2),[7,8),[13,14)}'), '1-2 7-8 13-14',
    'larger gaps are not read');
select is(pg_temp.spans('{}'), null, 'the empty set has no range to read');
select is(pg_temp.spans('{[1,2),[9223372036854775800,9223372036854775801)}'),
    '1-2 9223372036854775800-9223372036854775801', 'a gap of nearly all ids is not read');

-- ranks
select is(
    (select string_agg(x.name, ' ' order by pgq._rank(x.priority, x.back, x.id))
     from (values ('d', 0, false, 7), ('e', 0, false, 8), ('c', 0, true, 9), ('a', 1000, true, 50),
                  ('b', 1, false, 60), ('g', -1000, false, 1), ('f', -1000, true, 2))
         x (name, priority, back, id)),
    'a b c d e f g', 'the order is priority, then redeliveries, then age');
select is(
    (select count(distinct pgq._rank(p, b, i))
     from generate_series(-1000, 1000, 50) p, unnest('{true,false}'::boolean[]) b,
          unnest('{0,1,562949953421311}'::bigint[]) i),
    (41 * 2 * 3)::bigint, 'no two messages have the same rank');
select cmp_ok(pgq._rank(1, false, 562949953421311), '<', pgq._rank(0, true, 0),
    'the last id of a priority comes before the first id of the next lower priority');
select is(
    (select min(pgq._rank(p, false, 12345) - ((pgq._rank(p, false, 12345) >> 49) << 49))
     from unnest('{-1000,-1,0,1,1000}'::int[]) p),
    12345::bigint, 'a rank contains the id of the message, whatever the priority');

-- lease tokens
select is(pgq._lease_second('2025-01-01 00:00:00+00'), 0::bigint,
    'tokens count seconds from the beginning of 2025');
select is(pgq._lease_second('1999-01-01 00:00:00+00'), 0::bigint,
    'a time before 2025 counts as the beginning of 2025');
select is(pgq._lease_second('2025-01-01 00:00:02.9+00'), (2::bigint << 23),
    'tokens count whole seconds');
select cmp_ok(pgq._lease_second('infinity') + 8388607, '<', 9007199254740992,
    'every token is exact in a double');
select cmp_ok(pgq._lease_second('2058-01-01 00:00:00+00'), '<', pgq._lease_second('infinity'),
    'the seconds of tokens last until 2058');

-- lanes
create function pg_temp.label(keys text[]) returns jsonb language sql return pgq._lane_label(
    jsonb_populate_record(null::pgq.message, '{
        "headers": {"a": "x", "b": 1, "c": null}, "recipient": "me",
        "payload": {"n": 1, "o": {"p": true, "q.r": 5, "s": {}}, "l": [{"p": 1}], "t.u": 1}
    }'), keys);
select is(pg_temp.label('{b,a,zz,c}'),
    '[1, "x", [], null]',
    'a label has the values in the order of the keys, and [] for a missing value');
select is(pg_temp.label('{a}'), '["x", [], [], []]',
    'a label has four values, whatever the number of keys');
select is(pg_temp.label('{payload.n,payload.o.p,payload.o.z,payload.z.n}'), '[1, true, [], []]',
    'a label can have values of the payload');
select is(pg_temp.label('{payload.o,payload.o.s,payload.l,payload.l.p}'), '[{}, {}, {}, {}]',
    'a value that is not a scalar, or is below an array, is {}');
select is(pg_temp.label('{payload.o.q.r,payload.t.u,payload.n.m,payload.o.p.x}'),
    '[{}, {}, [], []]', 'a value under a key with a dot is {}');
select is(pg_temp.label('{msg.recipient,msg.sender,#a,#msg.topic}'), '["me", null, [], []]',
    'a label can have fields of msg, and does not have hashed keys');
select is(pgq._lane_hash('5'), pgq._lane_hash('5.0'), 'equal numbers have one hash');
select isnt(pgq._lane_hash('5'), pgq._lane_hash('"5"'),
    'a number and a text have different hashes');
select is(pgq._lane_hash('[]'), pgq._lane_hash('null'), 'missing and null have one hash');
select is(pgq._lane_hash('{}'), 0, 'a value that is not a scalar has the hash 0');

-- queues
select throws_ok($$select pgq._queue('nowhere'::text)$$, 'QU001', 'queue "nowhere" does not exist',
    'an unknown queue is an error');
select throws_ok($$select pgq._queue(null::text)$$, 'QU001', null,
    'a null name of a queue is an error');
select matches(t.hint_of($$select pgq._queue('nowhere'::text)$$), 'create_queue',
    'the hint names create_queue');

-- topics
select lives_ok(format('select pgq._check_topic(%L)', x), format('topic %s is fine', x))
from unnest(array['a', 'orders.created', 'a-b_c.d+e', 'Größe.日本', '1.2.3', repeat('x', 255)]) x;
select throws_ok(format('select pgq._check_topic(%L)', x), '22023', null,
    format('topic %L is refused', left(x, 20)))
from unnest(array[null, '', '.', 'a.', '.a', 'a..b', 'a b', E'a\tb', E'a\n', 'a.*', '#', 'ord*',
                  repeat('x', 256)]) x;
select isnt(t.hint_of(format('select pgq._check_topic(%L)', x)), '',
    format('the refusal of %L has a hint', left(x, 20)))
from unnest(array['', 'a..b', repeat('x', 256)]) x;

-- compiled filters
select is((pgq._find_filter('{"a": 1}', null)).filter_id, null,
    'finding a filter returns no stored filter');
select is((select count(*) from pgq.filter), 0::bigint, 'finding a filter stores nothing');
select pgq.create_queue('one'), pgq.create_queue('two'), pgq.create_queue('laned', '{a}');
create function pg_temp.kept(queue text, filter jsonb) returns bigint language sql
return (select (pgq._keep_filter(q, filter)).filter_id from pgq.queue q where q.name = queue);
select isnt(pg_temp.kept('one', '{"a": 1, "b": 2}'), null, 'a filter is stored');
select is(pg_temp.kept('two', '{"b": 2, "a": 1}'),
          (pgq._find_filter('{"a": 1, "b": 2}', null)).filter_id,
    'equal documents are the same filter, whatever the order of their keys');
select isnt(pg_temp.kept('laned', '{"a": 1, "b": 2}'),
            (pgq._find_filter('{"a": 1, "b": 2}', null)).filter_id,
    'the same document for other lane keys is another filter');
select is((select count(*) from pgq.filter), 2::bigint, 'each filter is stored once');
select is((pgq._find_filter('{"a": 1}', '{a}')).lane_final, true,
    'a filter on lane keys alone is decided by the lane');
select is((pgq._find_filter('{"a": 1, "b": 2}', '{a}')).lane_final, false,
    'a filter on other fields, too, is not decided by the lane');
select throws_ok($$select pgq._find_filter('{"a": {"$what": 1}}', null)$$, 'QU004', null,
    'an invalid filter is refused');
insert into pgq.filter (queue_id, hash, document, scope, path, lane_final)
select (select queue_id from pgq.queue where name = 'one'), i, to_jsonb(i), 'headers', 'true', false
from generate_series(1, 10000) i;
select is(pg_temp.kept('one', '{"new": 1}'), null,
    'a full cache does not store a new filter, and raises no error');
select isnt(pg_temp.kept('two', '{"new": 1}'), null,
    'a full cache of one queue does not prevent another queue from storing a filter');

-- the clock
select t.at('2030-01-01 12:00:00+00');
select is(pgq.now(), '2030-01-01 12:00:00+00', 'the clock can be set');
select t.advance('90 s');
select is(pgq.now(), '2030-01-01 12:01:30+00', 'the clock can be advanced');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
