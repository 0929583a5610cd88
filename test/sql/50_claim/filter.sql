-- Claims with a filter: the same answers with and without lanes.
begin;
select no_plan();
select t.at(now());

-- Queues that receive the same messages: without lanes, with one lane key, with two, with a hashed
-- one, and with lanes of other fields.
select pgq.create_queue('plain', lease => '1 h', set_size => 5, backoff => '0', max_backoff => '0');
select pgq.create_queue('laned', '{type}', lease => '1 h', set_size => 5, backoff => '0',
    max_backoff => '0');
select pgq.create_queue('twice', '{type,region}', lease => '1 h', set_size => 5, backoff => '0',
    max_backoff => '0');
select pgq.create_queue('hashed', '{#type}', lease => '1 h', set_size => 5, backoff => '0',
    max_backoff => '0');
select pgq.create_queue('fields', '{payload.amount,#msg.sender}', lease => '1 h', set_size => 5,
    backoff => '0', max_backoff => '0');
insert into pgq.binding (queue_id, pattern) select queue_id, 'all' from pgq.queue;
select pgq._rerouted();

create function pg_temp.fill() returns void language plpgsql as $$
begin
    delete from pgq.ready;
    delete from pgq.lease;
    delete from pgq.lane;
    perform t.damage('delete from pgq.message');
    insert into pgq.message (topic, payload, headers, priority, sender, correlation_id)
    select 'all', jsonb_build_object('n', i, 'amount', i * 10),
           jsonb_strip_nulls(jsonb_build_object(
               'type', (array['order', 'refund', 'order-x', null])[i % 4 + 1],
               'region', (array['EU', 'US', 'APAC'])[i % 3 + 1],
               'n', i)),
           i % 2, 'sender ' || i % 5, 'c' || i
    from generate_series(1, 60) i;
end
$$;
-- The field n of the messages that a claim takes.
create function pg_temp.taken(queue text, filter jsonb, n int) returns int[]
language plpgsql as $$
begin
    return array(select (c.payload ->> 'n')::int from pgq.claim(queue, filter, n) c);
end
$$;
create function pg_temp.ready(queue text) returns int[] language plpgsql as $$
begin
    return array(
        select (m.payload ->> 'n')::int from pgq.message_state s join pgq.message m using (id)
        where s.queue = ready.queue and s.state = 'ready' order by 1);
end
$$;

create temp table filter (i serial, document jsonb);
insert into filter (document) values
    (null), ('{}'), ('{"type": "order"}'), ('{"type": {"$in": ["order", "refund"]}}'),
    ('{"type": {"$ne": "order"}}'), ('{"$not": {"type": "order"}}'),
    ('{"type": {"$like": "order%"}}'), ('{"type": {"$exists": false}}'),
    ('{"type": "order", "region": "EU"}'), ('{"$or": [{"type": "order"}, {"region": "EU"}]}'),
    ('{"region": {"$in": ["EU", "US"]}}'), ('{"n": {"$gt": 50}}'), ('{"type": "order", "n": 4}'),
    ('{"payload": {"amount": {"$lte": 100}}}'), ('{"type": "refund", "payload.amount": 130}'),
    ('{"msg": {"priority": 1}}'), ('{"msg": {"sender": {"$suffix": "3"}}, "region": "US"}'),
    ('{"msg": {"correlation_id": "c7"}}'), ('{"msg.sender": "sender 3"}'),
    ('{"msg.sender": {"$in": ["sender 1", "sender 9"]}, "payload.amount": {"$gt": 200}}'),
    ('{"$or": [{"msg.sender": "sender 2"}, {"type": "refund"}]}'),
    ('{"msg": {"topic": {"$topic": "#"}}}'),
    ('{"msg": {"attempt": 1}}'), ('{"msg": {"attempt": 2}}'), ('{"type": "nothing"}'),
    ('{"$const": false}'), ('{"$const": true}');

create temp table answer (filter int, queue text, n int, taken int[], peeked int[], rest int[]);
do $$
declare
    v record;
    v_queue text;
    v_peeked int[];
begin
    for v in select f.i, f.document, n from filter f, unnest('{1,7,1000}'::int[]) n loop
        perform pg_temp.fill();
        foreach v_queue in array '{plain,laned,twice,hashed,fields}'::text[] loop
            v_peeked := array(
                select (p.payload ->> 'n')::int from pgq.peek(v_queue, v.document, v.n) p);
            insert into answer values (
                v.i, v_queue, v.n, pg_temp.taken(v_queue, v.document, v.n), v_peeked,
                pg_temp.ready(v_queue));
        end loop;
    end loop;
end
$$;
create temp view expected as
select f.i as filter, f.document, array_agg(x.n order by x.n) as wanted
from filter f
cross join generate_series(1, 60) x (n)
join pgq.message m on m.payload ->> 'n' = x.n::text
    and m.id > (select max(id) - 60 from pgq.message)
where pgq.matches(f.document, m.headers, m.payload, topic => m.topic, priority => m.priority,
                  sender => m.sender, correlation_id => m.correlation_id, attempt => 1)
group by 1, 2;

select is_empty(
    $$select a.filter, a.queue, a.taken, e.wanted from answer a
      left join expected e using (filter)
      where a.n = 1000
        and array(select unnest(a.taken) order by 1) is distinct from coalesce(e.wanted, '{}')$$,
    'a claim takes exactly the messages that match its filter, whatever the lanes');
select is_empty(
    $$select a.filter, a.queue, a.n from answer a left join expected e using (filter)
      where cardinality(a.taken) <> least(a.n, coalesce(cardinality(e.wanted), 0))$$,
    'a claim takes n matching messages, or all if there are fewer');
select is_empty(
    $$select a.filter, a.queue, a.n from answer a
      where a.rest is distinct from array(
          select i from generate_series(1, 60) i where i <> all (a.taken))$$,
    'a claim leaves all other messages ready');
select is_empty(
    $$select a.filter, a.queue, a.n, a.taken from answer a
      where a.queue = 'plain' and a.taken <> array(
          select i from unnest(a.taken) i order by i % 2 desc, i)$$,
    'a claim without lanes takes messages in the order of the queue');
select is_empty(
    $$select a.filter, a.queue, a.n, a.taken from answer a
      where exists (select from unnest(a.taken) with ordinality x (i, o)
                    join unnest(a.taken) with ordinality y (i, o) on x.o < y.o
                    where x.i % 2 < y.i % 2)$$,
    'no claim, with or without lanes, takes a lower priority before a higher one');
select is_empty(
    $$select a.filter, a.queue, a.n, a.taken, a.peeked from answer a where a.taken <> a.peeked
        and a.queue = 'plain'$$,
    'peek shows the messages that a claim would take, in the same order');
select is_empty(
    $$select a.filter, a.queue, a.n from answer a where a.n = 1000
        and array(select unnest(a.taken) order by 1) <> array(select unnest(a.peeked) order by 1)$$,
    'peek shows the messages that a claim with lanes would take');
select is(
    (select array_agg(distinct a.taken::text) from answer a where a.filter in (1, 2)
        and a.queue = 'plain' and a.n = 7),
    (select array[a.taken::text] from answer a where a.filter = 1 and a.queue = 'plain'
        and a.n = 7),
    'a filter of null and an empty filter take the same messages');

-- attempts
select pg_temp.fill();
select max(lease_id) as lease from pgq.claim('laned', '{"type": "refund"}', 3) \gset
select pgq.nack(:lease, delay => '0');
select is(cardinality(pg_temp.taken('laned', '{"msg": {"attempt": {"$gte": 2}}}', 100)), 3,
    'a filter can select messages by their attempt');
select is(cardinality(pg_temp.taken('laned', '{"type": "refund"}', 100)), 12,
    'leased messages are not delivered to others');

-- rows that a claim does not need
select pg_temp.fill();
create temp table untouched as
select ctid as place, xmin::text as maker, lane_id, ids from pgq.ready
where queue_id = (select queue_id from pgq.queue where name = 'laned')
  and lane_id not in (select lane_id from pgq.lane
                      where document -> 'headers' = '{"type": "order"}');
select cardinality(pg_temp.taken('laned', '{"type": "order"}', 100));
select is_empty(
    $$select place, maker, lane_id, ids from untouched
      except select ctid, xmin::text, lane_id, ids from pgq.ready$$,
    'a claim by lane changes nothing in other lanes');
select pg_temp.fill();
create temp table before_claim as select ids from pgq.ready
where queue_id = (select queue_id from pgq.queue where name = 'plain');
select is(pg_temp.taken('plain', '{"n": 12}', 10), '{12}'::int[],
    'a filter takes one message out of a set');
select is((select count(*) from (select ids from before_claim intersect
                                 select ids from pgq.ready) x),
    (select count(*) - 1 from before_claim), 'only the set of that message is divided');
select is(pg_temp.taken('plain', null, 1000) @> '{11,13}', true,
    'the rest of that set can be claimed');

-- a match behind a long backlog
select pgq.create_queue('deep', lease => '1 h');
select count(*) from pgq.publish_batch('deep', array_fill('1'::jsonb, array[10000]));
select pgq.publish('deep', '"here"', '{"type": "rare"}');
select count(*) from pgq.publish_batch('deep', array_fill('2'::jsonb, array[500]));
select is(t.take('deep', '{"type": "rare"}'), 'here',
    'a match behind ten thousand others is found');
select is((select count(*) from pgq.peek('deep', n => 100000)), 10500::bigint,
    'all other messages are still ready');
select is(t.take('deep', '{"type": "rare"}'), null, 'a second claim finds no other match');
select pgq.publish('deep', '"again"', '{"type": "rare"}');
select is(t.take('deep', '{"type": "rare"}'), 'again', 'a match that is published later is found');

-- invalid filters
select pgq.publish('deep', '"due"', delay => '1 s');
select t.advance('2 s');
select throws_ok(format('select pgq.claim(%L, %L)', 'deep', f), 'QU004', null,
    'an invalid filter is refused: ' || f)
from unnest(array['[]', '1', '"a"', '{"a": {"$what": 1}}', '{"$and": []}', '{"a..b": 1}',
    '{"msg": {"colour": 1}}', '{"a": {"$regex": "("}}', '{"$const": 1}']) f;
select is(t.held('deep', 'delayed'), 'due', 'a refused claim does not make due messages ready');
select isnt(t.hint_of($$select pgq.claim('deep', '{"a": {"$what": 1}}')$$), '',
    'the error has a hint');

-- statistics
select pgq.create_queue('counted', '{type}', lease => '1 h');
insert into pgq.message (topic, payload, headers)
select 'counted', to_jsonb(i), jsonb_build_object('type', i % 2, 'n', i)
from generate_series(1, 100) i;
select count(*) from pgq.claim('counted', '{"type": 1}', 10);
select count(*) from pgq.claim('counted', '{"type": 1}', 10);
select count(*) from pgq.claim('counted', '{"n": 77}', 10);
select count(*) from pgq.claim('counted', '{"n": 777}', 10);
select count(*) from pgq.claim('counted', '{"type": "x"}', 10);
select results_eq(
    $$select filter, claims, matched, last_match_at is not null from pgq.filter_stats
      where queue = 'counted' order by filter::text collate "C"$$,
    $$values ('{"n": 777}'::jsonb, 1::bigint, 0::bigint, false), ('{"n": 77}', 1, 1, true),
             ('{"type": "x"}', 1, 0, false), ('{"type": 1}', 2, 20, true)$$,
    'filter_stats counts the claims and the matches of each filter');
select is((select tested from pgq.filter_stats where queue = 'counted' and filter = '{"type": 1}'),
    0::bigint, 'a filter on lane keys tests no message');
select cmp_ok((select tested from pgq.filter_stats
               where queue = 'counted' and filter = '{"n": 777}'),
    '>=', 79::bigint, 'a filter on another field tests every ready message');

-- expired messages and filters
select pgq.publish('counted', '"e"', '{"type": 9}', expires_in => '1 s');
select pgq.publish('counted', '"f"', '{"type": 9}');
select t.advance('2 s');
select is(t.take('counted', '{"type": 9}', 10), 'f',
    'a claim with a filter does not deliver an expired message');
select is(t.held('counted', 'dead'), 'e', 'the expired message is a dead letter');

-- Lanes replace an index on headers: no message is tested.
select pgq.create_queue('indexed', '{type,region}', lease => '1 h');
insert into pgq.message (topic, payload, headers)
select 'indexed', to_jsonb(i), jsonb_strip_nulls(jsonb_build_object(
    'type', (array['order-new', 'order-paid', 'refund', null])[i % 4 + 1],
    'region', (array['EU', 'US'])[i % 2 + 1]))
from generate_series(1, 400) i;
create temp table index_kind (kind text, filter jsonb, matches bigint);
insert into index_kind values
    ('one key', '{"type": "refund"}', 100),
    ('several keys', '{"type": "order-paid", "region": "US"}', 100),
    ('the existence of a key', '{"type": {"$exists": false}}', 100),
    ('a pattern', '{"type": {"$like": "order-%"}}', 100);
select is(count(c.id), k.matches, 'a claim by ' || k.kind || ' takes all messages that match')
from index_kind k left join lateral pgq.claim('indexed', k.filter, 1000) c on true
group by k.kind, k.matches, k.filter;
select results_eq(
    $$select s.matched, s.tested from pgq.filter_stats s where s.queue = 'indexed' order by 1$$,
    $$select matches, 0::bigint from index_kind order by 1$$,
    'these claims test no message, as if there were an index');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
