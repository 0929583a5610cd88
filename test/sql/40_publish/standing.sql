-- Many filtered subscriptions of a topic: the index of their conditions finds the same ones as
-- testing each of them.
begin;
select no_plan();
select t.at(now());
-- Lowers the limits, so that few filters count as many.
create function pg_temp.limit(name text, value int) returns void language plpgsql as $$
begin
    execute regexp_replace(pg_get_functiondef('pgq._limit'::regproc),
        format($x$('%s'::text THEN) \d+$x$, name), '\1 ' || value);
end
$$;
select pg_temp.limit('standing_filters', 20), pg_temp.limit('field_filters', 5);
-- How many rows of the tables a statement reads.
create function pg_temp.rows_read(tables text, statement text) returns bigint
language plpgsql as $$
declare
    v_before bigint := (
        select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)
        from pg_stat_xact_user_tables where schemaname = 'pgq' and relname like tables);
begin
    execute statement;
    return (select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)
            from pg_stat_xact_user_tables where schemaname = 'pgq' and relname like tables)
        - v_before;
end
$$;

-- random filters of all kinds, with one to three keys
select setseed(0.19);
create function pg_temp.pick(variadic choices text[]) returns text language sql volatile
return choices[1 + floor(random() * cardinality(choices))::int];
create function pg_temp.field() returns text language sql volatile
return pg_temp.pick('type', 'region', 'amount', 'payload.type', 'payload.amount', 'payload.a.b',
                    'payload.tags', 'msg.recipient', 'msg.sender', 'msg.priority',
                    'flag' || floor(random() * 60));
create function pg_temp.word() returns text language sql volatile
return pg_temp.pick('a', 'b') || pg_temp.pick('', 'a', 'b') || pg_temp.pick('', '-1', '-2');
create function pg_temp.condition() returns jsonb language sql volatile
return jsonb_build_object(pg_temp.field(), (array[
    to_jsonb(pg_temp.word()), to_jsonb(floor(random() * 20)::int),
    jsonb_build_array(pg_temp.word(), pg_temp.word()),
    jsonb_build_array(jsonb_build_object('prefix', pg_temp.word())),
    jsonb_build_array(jsonb_build_object('prefix', pg_temp.word()), floor(random() * 20)::int),
    jsonb_build_object('$gte', floor(random() * 15), '$lt', 10 + floor(random() * 10)),
    jsonb_build_object('$gt', floor(random() * 20)),
    jsonb_build_object('$between', jsonb_build_array(pg_temp.word(), 'b')),
    jsonb_build_array(jsonb_build_object('numeric', jsonb_build_array('>', floor(random() * 20)))),
    jsonb_build_object('$exists', random() < 0.7), jsonb_build_object('$isNull', random() < 0.5),
    jsonb_build_object('$like', pg_temp.word() || '%1'),
    jsonb_build_object('$topic', pg_temp.word() || '.#'),
    jsonb_build_array(jsonb_build_object('anything-but', pg_temp.word())),
    jsonb_build_array(jsonb_build_object('suffix', '-1')),
    jsonb_build_object('$ne', pg_temp.word()), 'null'])[1 + floor(random() * 17)::int]);
create function pg_temp.document() returns jsonb language sql volatile
return case when random() < 0.15 then jsonb_build_object('$or', jsonb_build_array(
        pg_temp.condition(), pg_temp.condition()))
    when random() < 0.1 then jsonb_build_object('$not', pg_temp.condition())
    else pg_temp.condition() || case when random() < 0.6 then pg_temp.condition() else '{}' end
        || case when random() < 0.3 then pg_temp.condition() else '{}' end end;
do $$
begin
    for i in 1 .. 240 loop
        begin
            perform pgq.subscribe('s' || i, (array['t', 't', 't', '#', 'other'])[1 + i % 5],
                                  pg_temp.document());
        exception when sqlstate 'QU004' then null;  -- a timestamp, or msg has no such field
        end;
    end loop;
end
$$;
select cmp_ok((select count(*) from pgq.binding where anchors > 0), '>', 150::bigint,
    'most filters have conditions that are indexed (anchors)');
select is_empty($$select from pgq.binding b
    where anchors <> (select count(*) from pgq.anchor a where a.binding_id = b.binding_id)$$,
    'a binding stores the number of its anchors');

create function pg_temp.value() returns jsonb language sql volatile
return (array[to_jsonb(pg_temp.word()), to_jsonb(floor(random() * 20)::int), 'null', 'true',
              to_jsonb(random() * 20)])[1 + floor(random() * 5)::int];
create function pg_temp.headers() returns jsonb language sql volatile
return (select jsonb_object_agg(k, pg_temp.value())
        from unnest(array['type', 'region', 'amount', 'flag' || floor(random() * 60)]) k
        where random() < 0.8);
create function pg_temp.payload() returns jsonb language sql volatile
return (array[
    pg_temp.value(), '[]',
    jsonb_build_object('type', pg_temp.value(), 'amount', pg_temp.value(),
        'a', jsonb_build_object('b', pg_temp.value()), 'tags', '[]'::jsonb),
    jsonb_build_object('type', pg_temp.value(), 'a.b', pg_temp.value(),
        'tags', jsonb_build_array(pg_temp.value(), pg_temp.value())),
    jsonb_build_object('amount', jsonb_build_array(pg_temp.value(), pg_temp.value()),
        'a', jsonb_build_array(jsonb_build_object('b', pg_temp.value()),
            jsonb_build_object('b', jsonb_build_array(pg_temp.value()))),
        'tags', jsonb_build_object('x', 1)),
    jsonb_build_array(jsonb_build_object('type', pg_temp.value()),
        jsonb_build_object('amount', pg_temp.value()))])[1 + floor(random() * 6)::int];
insert into pgq.message (topic, headers, payload, priority, sender, recipient)
select 't', coalesce(pg_temp.headers(), '{}'), pg_temp.payload(), floor(random() * 20)::int,
       case when random() < 0.5 then pg_temp.word() end,
       case when random() < 0.5 then pg_temp.word() end
from generate_series(1, 400);
create temp view delivered as
select r.queue_id, i as id
from pgq.ready r, unnest(r.ids) u, generate_series(lower(u), upper(u) - 1) i;
create temp table expected as
select distinct b.queue_id, m.id from pgq.binding b join pgq.message m on m.topic = b.pattern
    or b.pattern = '#'
where pgq._matches(b.path, b.scope, m, 1, pgq.now());
select cmp_ok((select count(*) from expected), '>', 5000::bigint,
    'the random filters match the random messages more than 5000 times');
select cmp_ok((select cardinality(fields) from pgq.route where topic = 't'), '>=', 8,
    'fields that many filters test are looked up by their values');
select isnt_empty($$select from pgq.route where topic = 't' and 't' = any (patterns)$$,
    'headers that few filters test are looked up by their names');
select cmp_ok((select cardinality(binding_ids) from pgq.route where topic = 't'), '<', 60,
    'few filters have to be tested on every message');
select is_empty('select * from expected except select * from delivered',
    'every message reaches all queues that testing each filter finds');
select is_empty('select * from delivered except select * from expected',
    'no message reaches a queue that testing each filter does not find');
select is((select count(*) from delivered), (select count(distinct (queue_id, id)) from delivered),
    'every message reaches a queue once');
select is((select sum(matches)::bigint from pgq.binding_hit), (
    select count(*) from pgq.binding b join pgq.message m on m.topic = b.pattern
        or b.pattern = '#'
    where pgq._matches(b.path, b.scope, m, 1, pgq.now())),
    'each match of a subscription is counted');
-- messages that are published one by one
create temp table batch as table delivered;
delete from pgq.ready;
create temp table twin as
select m.id, pgq.publish('t', m.payload, m.headers, m.priority, sender => m.sender,
                         recipient => m.recipient) as copy
from (select * from pgq.message order by id limit 60) m;
select set_eq('select d.queue_id, t.id from delivered d join twin t on t.copy = d.id',
    'select b.queue_id, b.id from batch b join twin t on t.id = b.id',
    'a message that is published alone reaches the same queues as in a batch');

-- the number of tests does not grow with the number of filters
select pgq.unsubscribe_all(name) from pgq.queue;
select pgq.subscribe('v' || i, 'many', case i % 4
    when 0 then jsonb_build_object('customer', 'c' || i, 'type', 'order')
    when 1 then jsonb_build_object('path', jsonb_build_array(
        jsonb_build_object('prefix', '/r/' || i || '/')), 'type', 'order')
    when 2 then jsonb_build_object('type', 'order',
        'payload.amount', jsonb_build_object('$gte', i * 10, '$lt', i * 10 + 10))
    else jsonb_build_object('flag' || i, '{"$exists": true}'::jsonb, 'type', 'order') end)
from generate_series(1, 400) i;
create temp table sample (headers jsonb, payload jsonb, queue text);
insert into sample values
    ('{"type": "order", "customer": "c200"}', '{}', 'v200'),
    ('{"type": "order", "path": "/r/201/x"}', '{}', 'v201'),
    ('{"type": "order"}', '{"amount": 2022.5}', 'v202'),
    ('{"type": "order", "flag203": null}', '{}', 'v203');
select pgq.publish('many', '1', '{"type": "order"}');
select cmp_ok(pg_temp.rows_read('binding', format(
        'select pgq.publish(%L, %L, %L)', 'many', s.payload, s.headers)), '<=', 8::bigint,
    s.queue || ' is found among 400 without testing the others')
from sample s;
select results_eq($$select q.name from delivered d join pgq.queue q using (queue_id)
    where q.name like 'v%' order by d.id$$, 'select queue from sample',
    'each message reaches the one queue whose filter matches');
select pgq.alter_subscription('v200', 'many', '{"customer": "other"}');
select pgq.unsubscribe('v201', 'many');
delete from pgq.ready;
select pgq.publish('many', s.payload, s.headers) from sample s;
select pgq.publish('many', '{}', '{"customer": "other"}');
select results_eq($$select q.name from delivered d join pgq.queue q using (queue_id)
    where q.name like 'v%' order by d.id$$, $$values ('v202'::text), ('v203'), ('v200')$$,
    'a changed and a removed subscription take effect with the next message');

-- queues of all kinds
delete from pgq.ready;
select pgq.alter_queue('v202', mode => 'archive');
select pgq.alter_queue('v203', lane_keys => '{type}');
select pgq.publish('many', s.payload, s.headers) from sample s;
select results_eq($$select q.name from delivered d join pgq.queue q using (queue_id)
    where q.name like 'v%'$$, $$values ('v203'::text)$$, 'an archive delivers nothing');
select pgq.publish('many', '{}', '{"flag7": 1, "type": "order"}', dedup_key => 'k');
select pgq.publish('many', '{}', '{"flag7": 1, "type": "order"}', dedup_key => 'k');
select is((select count(*) from delivered d join pgq.queue q using (queue_id) where q.name = 'v7'),
    1::bigint, 'a duplicate is not delivered to a filtered subscription');

-- a restored dump has no anchors
delete from pgq.anchor;
select pgq._rerouted();
delete from pgq.ready;
select pgq.publish('many', '{}', '{"flag11": 1, "type": "order"}');
select is((select count(*) from delivered d join pgq.queue q using (queue_id) where q.name = 'v11'),
    1::bigint, 'a message reaches its queue without anchors');
select is((select fields from pgq.route where topic = 'many'), null,
    'the routing cache has no indexed fields without anchors');
update pgq.binding set filter = '{"$unknown": 1}'
where queue_id = (select queue_id from pgq.queue where name = 'v15');
select pg_temp.limit('gc_anchors', 390);
select ok(pgq._maintain(), 'maintenance begins to restore the anchors');
select pgq._maintain();
select is((select count(*) from pgq.binding b where b.pattern = 'many' and b.anchors > 0
           and exists (select from pgq.anchor a where a.binding_id = b.binding_id)),
    398::bigint, 'maintenance restores the anchors of every filter that it can parse');
select pgq.publish('many', '{}', '{"flag11": 1, "flag15": 1, "type": "order"}');
select isnt((select fields from pgq.route where topic = 'many'), null,
    'the routing cache uses the restored anchors');
select is((select count(*) from delivered d join pgq.queue q using (queue_id)
           where q.name in ('v11', 'v15')), 3::bigint,
    'a filter without restored anchors is tested');

select pgq.drop_queue('v' || i, force => true) from generate_series(1, 400) i;
select is((select count(*) from pgq.anchor), 0::bigint, 'dropping queues deletes their anchors');
select * from finish();
rollback;
