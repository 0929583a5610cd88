-- The cost of many subscriptions and topics, in rows read.
select no_plan();
select t.at(now());
-- a thousand subscriptions, most of them with wildcards
select pgq.create_queue('home');
insert into pgq.queue (name) select 's' || i from generate_series(1, 990) i;
insert into pgq.binding (queue_id, pattern, regex)
select q.queue_id, p.pattern, pgq._pattern_regex(p.pattern)
from pgq.queue q
cross join lateral (select (array['n.' || q.name, '*.' || q.name || '.*', q.name || '.#'])
                               [1 + q.queue_id % 3] as pattern) p
where q.name like 's%';
select pgq.subscribe('r' || i, 'hit.#', case when i <> 2 then '{"type": "x"}'::jsonb end)
from generate_series(1, 10) i;
analyze pgq.queue, pgq.binding;
select cmp_ok(t.cost($$select pgq.publish('hit.me', '1', '{"type": "y"}')$$, 'binding'), '>=',
    1000::bigint, 'the first publish to a topic reads all bindings');
select is((select count(*) from pgq.ready), 1::bigint,
    'the first publish to a topic reaches the one queue that matches');
select is(t.cost($$select pgq.publish('hit.me', '1')$$, 'binding'), 10::bigint,
    'the second publish to a topic reads only the bindings of the topic, by index');
select cmp_ok(t.cost($$select pgq.publish('hit.me', '1')$$), '<=', 70::bigint,
    'the second publish to a topic reads at most 70 rows in all');
select is(t.cost($$select pgq.publish_batch('hit.me', '{1,2,3}')$$, 'binding'), 10::bigint,
    'publish_batch reads only the bindings of the topic');
select pgq.publish('home', '1');
select is(t.cost($$select pgq.publish('home', '1')$$, 'binding'), 0::bigint,
    'publishing reads no binding if only the queue of the topic receives it');
select pgq.publish('home', '1', dedup_key => 'k0');
select cmp_ok(t.cost($$select pgq.publish('home', '1', dedup_key => 'k1')$$, 'binding'),
    '<=', 1::bigint,
    'publishing with a dedup key reads at most one binding if one queue receives the topic');
select cmp_ok(t.cost($$select pgq.publish('hit.me', '1', dedup_key => 'k1')$$, 'binding'),
    '<=', 20::bigint, 'publishing with a dedup key reads only the bindings of the topic');
select pgq.subscribe('new', 'unrelated');
select cmp_ok(t.cost($$select pgq.publish('hit.me', '1')$$, 'binding'), '>=', 1000::bigint,
    'the first publish after a change of subscriptions reads all bindings');
select is(t.cost($$select pgq.publish('hit.me', '1')$$, 'binding'), 10::bigint,
    'the second publish after a change of subscriptions reads only those of the topic');

-- many topics
do $$
begin
    for i in 1 .. 300 loop
        perform pgq.publish('hit.t' || i, '1', '{"type": "x"}');
    end loop;
end
$$;
select cmp_ok((select count(*) from pgq.route), '>=', 300::bigint,
    'the routing cache holds hundreds of topics');
select cmp_ok(t.cost($$select pgq.publish('hit.t200', '1')$$, 'route'), '<=', 3::bigint,
    'one of hundreds of topics is found by index');
select cmp_ok(t.cost($$select pgq.publish('hit.t77', '1')$$), '<=', 70::bigint,
    'publishing to one of hundreds of topics reads at most 70 rows');

-- a subscription's claims cost what those of a queue cost
select pgq.publish('home', '1') from generate_series(1, 100);
create temp table costs as
select t.cost($$select pgq.claim('home', n => 10)$$, how) as plain,
       t.cost($$select pgq.claim('r1', n => 10)$$, how) as subscribed
from unnest('{ready,message%,binding,filter%}'::text[]) how;
select cmp_ok((select sum(subscribed) from costs), '<=', (select sum(plain) + 20 from costs),
    'a subscription does not test its filter again in claims: they cost as much as other claims');

-- many topics in one statement are routed as if they came one by one
create temp table mixed as
select i, jsonb_build_object('type', (array['x', 'y'])[1 + i % 2]) as headers,
       case when i % 7 = 0 then 'g' end as group_key,
       case when i % 5 = 0 then 'd' || i % 20 end as dedup_key,
       case when i % 11 = 0 then timestamptz 'infinity'
            when i % 13 = 0 then pgq.now() + interval '1 h' end as deliver_at
from generate_series(1, 200) i;
create function pg_temp.routed(topics text) returns setof text language sql as $$
    select format('%s %s %s', s.queue, s.state, string_agg(m.payload::text, ' ' order by m.id))
    from pgq.message_state s join pgq.message m using (id)
    where m.topic like topics and s.queue in ('r1', 'r2') group by s.queue, s.state
    union all
    select format('%s counts %s', s.subscriber, s.match_count) from pgq.subscription s
    where s.subscriber in ('r1', 'r2') $$;
select pgq.drop_queue('r1', force => true), pgq.drop_queue('r2', force => true);
select pgq.subscribe('r1', 'hit.#', '{"type": "x"}'), pgq.subscribe('r2', 'hit.#');
insert into pgq.message (topic, payload, headers, group_key, dedup_key, deliver_at)
select 'hit.many' || i % 40, to_jsonb(i), headers, group_key, dedup_key, deliver_at from mixed;
create temp table at_once as select * from pg_temp.routed('hit.many%') r;
select pgq.drop_queue('r1', force => true), pgq.drop_queue('r2', force => true);
select pgq.subscribe('r1', 'hit.#', '{"type": "x"}'), pgq.subscribe('r2', 'hit.#');
do $$
declare
    v record;
begin
    for v in select * from mixed order by i loop
        insert into pgq.message (topic, payload, headers, group_key, dedup_key, deliver_at)
        values ('hit.one' || v.i % 40, to_jsonb(v.i), v.headers, v.group_key, v.dedup_key,
                v.deliver_at);
    end loop;
end
$$;
select set_eq('table at_once', $$select pg_temp.routed('hit.one%')$$,
    'many topics in one statement are routed as if they came one by one');
select is((select count(*) from at_once), 8::bigint,
    'the routed messages are ready, delayed and waiting, and their matches are counted');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
