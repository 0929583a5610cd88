-- Filters projected to lane keys, and the part of a message that a filter reads.
begin;
select plan(26);

create function pg_temp.weak(filter jsonb, keys text[]) returns text language sql as $$
    select w.tree::text || case when w.final then ' final' else '' end
    from pgq._filter_project(pgq._filter_parse(filter), keys) as w
$$;
create function pg_temp.same(filter jsonb, keys text[], weaker jsonb, is_final boolean, why text)
returns text language sql as $$
    select is(pg_temp.weak(filter, keys),
        pgq._filter_parse(weaker)::text || case when is_final then ' final' else '' end, why)
$$;

select pg_temp.same('{"a": 1}', '{a}', '{"a": 1}', true, 'a test of a lane key is kept');
select pg_temp.same('{"a": 1}', '{b}', '{}', false, 'a test of another field is dropped');
select pg_temp.same('{"a": 1, "b": 2}', '{a}', '{"a": 1}', false,
    'a test of a lane key is kept beside a test that is dropped');
select pg_temp.same('{"$or": [{"a": 1}, {"b": 2}]}', '{a}', '{}', false,
    '$or is dropped if one test is of another field');
select pg_temp.same('{"$or": [{"a": 1}, {"b": 2}]}', '{a,b}', '{"$or": [{"a": 1}, {"b": 2}]}', true,
    '$or of tests of lane keys is kept');
select pg_temp.same('{"$not": {"a": 1}}', '{a}', '{"$not": {"a": 1}}', true,
    '$not of a test of a lane key is kept');
select pg_temp.same('{"$not": {"b": 1}}', '{a}', '{}', false,
    '$not of a test of another field is dropped, not turned into false');
select pg_temp.same('{"$not": {"a": 1, "b": 2}}', '{a}', '{}', false,
    '$not of several tests is dropped if one of them is of another field');
select pg_temp.same('{"$nor": [{"a": 1}, {"b": 2}]}', '{a}', '{"$not": {"a": 1}}', false,
    '$nor keeps the complements of tests of lane keys');
select pg_temp.same('{"a": {"$ne": 1}}', '{a}', '{"a": {"$ne": 1}}', true,
    '$ne of a lane key is kept');
select pg_temp.same('{"payload.a": 1}', '{a}', '{}', false,
    'a payload field is not the header of the same name');
select pg_temp.same('{"msg.topic": "x"}', '{topic}', '{}', false,
    'a field of msg is not the header of the same name');
select pg_temp.same('{"a": ["x", {"anything-but": "y"}, {"suffix": "z"}]}', '{a}',
    '{"a": ["x", {"anything-but": "y"}, {"suffix": "z"}]}', true,
    'a list of alternatives of a lane key is kept');
select pg_temp.same('{"a": [1], "payload": {"b": {"c": [1], "d": [2]}}}', '{a}', '{"a": [1]}',
    false, 'lists of payload fields are dropped');
select pg_temp.same('{"$not": {"payload": {"b": {"c": [1], "d": [{"exists": false}]}}}}', '{a,b}',
    '{}', false, '$not of lists of payload fields is dropped');
select pg_temp.same('{}', '{a}', '{}', true, 'a filter that matches everything is kept');
select pg_temp.same('{"$const": false}', '{}', '{"$const": false}', true,
    'a filter that matches nothing is kept');
select pg_temp.same('{"a": {"$elemMatch": {"b": 1}}, "payload.x": 1}', '{a}',
    '{"a": {"$elemMatch": {"b": 1}}}', false, 'a test of the elements of a lane key is kept');
select is(
    (select jsonb_path_match('{}', pgq._filter_path(w.tree), '{}', true)
        from pgq._filter_project(pgq._filter_parse('{"a": {"$exists": false}, "b": 1}'),
            '{a}') as w),
    true, 'a projected filter for a missing lane key matches a message without it');

select is(pgq._filter_scope(pgq._filter_parse(f.filter)), f.scope,
    coalesce(f.filter::text, 'NULL') || ' reads ' || f.scope)
from (values
    (null::jsonb, 'headers'), ('{"a": 1}', 'headers'), ('{"payload.a": 1}', 'payload'),
    ('{"a": 1, "payload.a": 1}', 'content'),
    ('{"$not": {"$or": [{"payload.a": 1}, {"headers.b": 1}, {"payload.c": 1}]}}', 'content'),
    ('{"msg.id": 1}', 'message'),
    ('{"payload.a": {"$elemMatch": {"b": 1}}}', 'payload')) as f (filter, scope);

select * from finish();
rollback;
