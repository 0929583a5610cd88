-- The compiled test: inlined into the statement that uses it, and true or false on any input.
begin;
select no_plan();

create temp table message (
    id bigint, topic text, priority int, headers jsonb, payload jsonb, sender text, recipient text,
    reply_to text, correlation_id text, group_key text, attempt int, published_at timestamptz,
    expires_at timestamptz);

create function pg_temp.plan_of(scope text) returns text language plpgsql as $$
declare
    v_line text;
    v_plan text := '';
begin
    for v_line in execute format('explain (verbose, costs off) select from message where '
        'pgq._test_filter(%L::jsonpath, %L, headers, payload, topic, priority, sender, recipient, '
        'reply_to, correlation_id, group_key, attempt, published_at, expires_at, id, now())',
        'exists($."k")', scope) loop
        v_plan := v_plan || v_line;
    end loop;
    return v_plan;
end
$$;
select unalike(pg_temp.plan_of(s), '%_test_filter%', 'the test is inlined for scope ' || s)
from unnest('{headers,payload,content,message}'::text[]) as s;
select unalike(pg_temp.plan_of(s), '%jsonb_build_object%', 'scope ' || s || ' builds no document')
from unnest('{headers,payload}'::text[]) as s;
select unalike(pg_temp.plan_of('headers'), '%CASE%', 'scope headers reads the headers alone');
select unalike(pg_temp.plan_of('content'), '%msg%',
    'scope content does not build the fields of msg');
select unalike(pg_temp.plan_of('message'), '%_message_document%',
    'the document of scope message is inlined');

-- every operator on every kind of value, in each scope: true or false, never NULL, never an error
create temp table operator_of (test text);
insert into operator_of values
    ('"a"'), ('5'), ('null'), ('{"$ne": "a"}'), ('{"$in": ["a", 1, null, true, 2]}'),
    ('{"$nin": ["a", 1]}'), ('{"$gt": 1}'), ('{"$lte": "a"}'), ('{"$between": [1, 2]}'),
    ('{"$like": "a%"}'), ('{"$nlike": "%a%b"}'), ('{"$ilike": "a_"}'), ('{"$prefix": "a"}'),
    ('{"$suffix": "a"}'), ('{"$substr": "a"}'), ('{"$ieq": "a"}'), ('{"$wildcard": "a*b"}'),
    ('{"$regex": "a+"}'), ('{"$topic": "a.#"}'), ('{"$exists": false}'), ('{"$isNull": false}'),
    ('{"$type": "object"}'), ('{"$all": ["a", ["b"]]}'), ('{"$size": 2}'), ('{"$mod": [2, 1]}'),
    ('{"$elemMatch": {"$gt": 1}}'), ('{"$elemMatch": {"a": 1, "$not": {"b": {"$gt": 1}}}}'),
    ('["a", {"prefix": "a"}, {"suffix": "b"}]'), ('[{"exists": true}]'), ('[{"exists": false}]'),
    ('[{"anything-but": "a"}]'), ('[{"anything-but": {"wildcard": ["a*b", "*"]}}]'),
    ('[{"numeric": [">", 1, "<", 2]}, {"cidr": "10.0.0.0/8"}]'), ('["x", {"exists": false}]'),
    ('{"$contains": {"a": [1]}}'), ('{"$contains": "a"}'), ('{"$eq": {"a": [1, {"b": 2}]}}');
create temp table value_of (value jsonb);
insert into value_of values
    ('null'), ('""'), ('"a"'), ('0'), ('-5.5'), ('1e300'), ('true'), ('[]'), ('{}'), ('[null]'),
    ('["a", 1, {"a": 1}, ["b"]]'), ('{"a": [1, {"b": 2}]}'), ('[[[]]]'),
    ('{"k": {"k": {"k": []}}}'),
    ('{"type": "k", "size": 1}');
select is_empty($$
    select o.test, v.value, f.filter
    from operator_of as o, value_of as v,
        lateral (values
            (format('{"k": %s}', o.test)), (format('{"payload.k": %s}', o.test)),
            (format('{"k": %s, "payload.k": %1$s}', o.test)),
            (format('{"headers.k": %s, "payload.k.k": %1$s, "msg.id": 1}', o.test)),
            (format('{"$not": {"headers.k": %s}}', o.test)),
            (format('{"payload": {"k": {"k": %s, "a": {"k": %1$s}}}}', o.test)),
            (format('{"$not": {"payload.k.k": %s}}', o.test))) as f (filter),
        lateral (values (v.value), (jsonb_build_object('k', v.value)),
            (jsonb_build_array(jsonb_build_object('k', v.value)))) as d (document)
    where pgq.matches(f.filter::jsonb, d.document, d.document) is null
        or pgq.matches(f.filter::jsonb, null, d.document) is null
$$, 'a compiled filter is true or false on any message');

select ok(pgq._test_filter(null, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null, null), 'every message passes if the filter is null');

-- Large lists use a binary search, with the same result.
select is(
    (select array_agg(i) from generate_series(1, 3000) as i
        where pgq._test_filter(c.path, c.scope, jsonb_build_object('k', i), null, null, 0, null,
            null, null, null, null, 1, null, null, null, now())),
    array(select i * 3 from generate_series(1, 1000) as i),
    'a list of 1000 numbers matches each of them and nothing else')
from pgq.compile_filter(jsonb_build_object('k',
    (select jsonb_agg(i * 3 order by random()) from generate_series(1, 1000) as i))) as c;
select is(
    (select array_agg(i) from generate_series(1, 3000) as i
        where pgq._test_filter(c.path, c.scope, null,
            jsonb_build_object('k', jsonb_build_array('é' || i)), null, 0, null,
            null, null, null, null, 1, null, null, null, now())),
    array(select i * 3 from generate_series(1, 1000) as i),
    'a list of 1000 texts matches each of them and nothing else')
from pgq.compile_filter(jsonb_build_object('payload.k',
    (select jsonb_agg('é' || i * 3 order by random()) from generate_series(1, 1000) as i))) as c;

-- one normal form for many spellings
select is(pgq._filter_parse(f.filter), pgq._filter_parse('{"k": "a"}'),
    f.filter::text || ' has the same normal form as {"k": "a"}')
from (values
    ('{"headers.k": "a"}'::jsonb), ('{"headers": {"k": "a"}}'), ('{"k": ["a"]}'),
    ('{"k": {"$eq": "a"}}'), ('{"k": {"$in": ["a", "a"]}}'), ('{"$and": [{"k": "a"}, {}]}'),
    ('{"$or": [{"k": "a"}, {"$const": false}]}'), ('{"$not": {"$nor": [{"k": "a"}]}}'),
    ('{"$not": {"$not": {"k": "a"}}}'), ('{"$path": ["headers", "k"], "$eq": "a"}')) as f (filter);
select is(pgq._filter_parse('{"$or": [{"k": "a"}, {}]}'), 'true',
    'the normal form of a filter that matches everything is true');
select is(pgq._filter_parse('{"k": "a", "$const": false}'), 'false',
    'the normal form of a filter that matches nothing is false');

-- the catalog
select is_empty($$
    select p.oid::regprocedure from pg_proc as p
    where p.pronamespace = 'pgq'::regnamespace
        and p.proname ~ ('^(_filter|_topic|_regex|_test|_message_document|matches|compile_filter|'
            'header_|all_of|any_of)')
        and (p.prolang = (select oid from pg_language where lanname = 'plpgsql')
                and not coalesce(p.proconfig, '{}') @> '{"search_path=pg_catalog, pg_temp"}'
            or obj_description(p.oid, 'pg_proc') is null
            or has_function_privilege('public', p.oid, 'execute')
            or p.provolatile = 'v')
$$, 'each filter function pins its search path, has a comment, is closed to PUBLIC, not volatile');

select * from finish();
rollback;
