-- A payload may be json as well as jsonb, and a call with literals stays unambiguous.
begin;
select no_plan();

select pgq.create_queue('q');
create temp table sale (id int, buyer text);
insert into sale values (1, 'Ann'), (2, 'Bob');

-- json
select lives_ok($$select pgq.publish('q', row_to_json(s)) from sale s where id = 1$$,
    'a row as json is published');
select is((select payload from pgq.claim('q')), '{"id": 1, "buyer": "Ann"}'::jsonb,
    'a row that is published as json is delivered');
select lives_ok(
    $$select pgq.publish(payload => '{"b": 1}'::json, topic => 'q', priority => 5,
                         headers => '{"type": "x"}', correlation_id => 'c', sender => 's')$$,
    'json can be passed by name, with other arguments');
select is((select (payload, priority, headers, correlation_id, sender) from pgq.claim('q')),
    ('{"b": 1}'::jsonb, 5, '{"type": "x"}'::jsonb, 'c'::text, 's'::text),
    'every argument is delivered in its own field');
select lives_ok($$select pgq.publish('q'::text, '1'::json), pgq.publish('q'::varchar, '2'::json)$$,
    'the topic may be text or varchar');
select is(array(select payload from pgq.claim('q', n => 2)), '{1,2}'::jsonb[],
    'both messages are delivered');
select throws_ok($$select pgq.publish('q', null::json)$$, '22004', null,
    'a json payload of null is refused');
select throws_ok($$select pgq.publish('nobody', '1'::json)$$, 'QU005', null,
    'json for a topic that no queue receives is refused');

-- many
select is((select count(*) from pgq.publish_batch(
    'q', array(select row_to_json(s) from sale s order by id))), 2::bigint,
    'an array of json is published');
select is(array(select payload ->> 'buyer' from pgq.claim('q', n => 2)), '{Ann,Bob}',
    'an array of json is delivered in order');
select is((select count(*) from pgq.publish_batch(
    topic => 'q', payloads => array['1']::json[], dedup_keys => '{k}')), 1::bigint,
    'an array of json can be passed by name');

-- an argument without a type is jsonb, as it would be without these overloads
select lives_ok($$select pgq.publish('q', '{"a": 1}'), pgq.publish('q', '{"a": 1}', '{"h": 1}'),
    pgq.publish('q'::text, '1'), pgq.publish('q'::varchar, '1'), pgq.publish('q'::name, '1'),
    pgq.publish('q', '1'::jsonb), pgq.publish('q'::varchar, '1'::jsonb),
    pgq.publish(topic => 'q', payload => '1'), pgq.publish(payload => '1', topic => 'q'),
    pgq.publish('q', payload => '1', delay => '1 s')$$,
    'literals are unambiguous in every notation');
select lives_ok($$select pgq.publish_batch('q', '{1}'),
    pgq.publish_batch(topic => 'q', payloads => '{1}'),
    pgq.publish_batch('q', array['1'::jsonb]), pgq.publish_batch('q', array['1']::jsonb[])$$,
    'literals of publish_batch are unambiguous in every notation');
prepare untyped as select pgq.publish($1, $2, $3), pgq.publish_batch($1, $4);
select is(
    (select parameter_types::text[] from pg_prepared_statements where name = 'untyped'),
    '{text,jsonb,jsonb,jsonb[]}', 'untyped parameters of a prepared statement become jsonb');

-- The overload is inlined, so it does not cost a function call of its own.
create function pg_temp.plan(statement text) returns setof text language plpgsql as
    $$begin return query execute 'explain (verbose, costs off) ' || statement; end$$;
select ok(
    (select bool_or(plan like '%::jsonb%') from pg_temp.plan(
        $$select pgq.publish('q', row_to_json(s)) from sale s$$) plan),
    'the overload for json is inlined as a cast to jsonb');

select * from finish();
rollback;
