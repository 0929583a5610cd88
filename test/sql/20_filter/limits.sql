-- Each limit of a filter: the last document that is accepted, and the first that is not.
begin;
select plan(43);

create function pg_temp.nested(depth int) returns jsonb language sql as $$
    select (repeat('{"$and": [', depth - 1) || '{"k": 1}' || repeat(']}', depth - 1))::jsonb
$$;
create function pg_temp.descend(depth int) returns jsonb language sql as $$
    select (repeat('{"a": ', depth) || '1' || repeat('}', depth))::jsonb
$$;
create function pg_temp.elements(depth int) returns jsonb language sql as $$
    select ('{"k": ' || repeat('{"$elemMatch": ', depth - 1) || '{"$eq": 1}'
        || repeat('}', depth))::jsonb
$$;
create function pg_temp.brackets(depth int) returns jsonb language sql as $$
    select ('{"k": {"$eq": ' || repeat('[', depth) || '1' || repeat(']', depth) || '}}')::jsonb
$$;
create function pg_temp.tests(n int) returns jsonb language sql as $$
    select jsonb_object_agg('k' || i, i) from generate_series(1, n) as i
$$;
create function pg_temp.list(operator text, n int) returns jsonb language sql as $$
    select jsonb_build_object('k', jsonb_build_object(operator, jsonb_agg(i)))
    from generate_series(1, n) as i
$$;
create function pg_temp.text_of(operator text, n int) returns jsonb language sql as $$
    select jsonb_build_object('k', jsonb_build_object(operator, repeat('a', n)))
$$;
create function pg_temp.works(filter jsonb, why text) returns text language sql as $$
    select lives_ok(format('select pgq.matches(%L::jsonb, %L)', filter, '{"k": "a", "a": {}}'), why)
$$;
create function pg_temp.fails(filter jsonb, message text, why text) returns text language sql as $$
    select throws_ok(format('select pgq.matches(%L::jsonb, %L)', filter, '{}'), 'QU004',
        'invalid filter: ' || message, why)
$$;

select pg_temp.works(pg_temp.nested(8), 'a filter is nested 8 levels deep');
select pg_temp.fails(pg_temp.nested(9), 'the filter is nested too deeply', 'and not 9');
select pg_temp.works(pg_temp.descend(8), 'fields are nested 8 levels deep');
select pg_temp.fails(pg_temp.descend(9), 'the filter is nested too deeply', 'and not 9');
select pg_temp.works(pg_temp.elements(8), '$elemMatch is nested 8 levels deep');
select pg_temp.fails(pg_temp.elements(9), 'the filter is nested too deeply', 'and not 9');
select pg_temp.works(pg_temp.brackets(8), 'an operand is nested 8 levels deep');
select pg_temp.fails(pg_temp.brackets(9), 'the operand is nested too deeply', 'and not 9');
select pg_temp.works(pg_temp.tests(256), 'a filter has 256 nodes');
select pg_temp.fails(pg_temp.tests(257), 'the filter has too many nodes', 'and not 257');
select pg_temp.works(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(255))),
    'a logical operator is one of the nodes');
select pg_temp.fails(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(256))),
    'the filter has too many nodes', 'so that fewer tests fit');
select pg_temp.works(pg_temp.list('$in', 1000), 'a list has 1000 values');
select pg_temp.fails(pg_temp.list('$in', 1001), 'the list is too long', 'and not 1001');
select pg_temp.works(pg_temp.list('$all', 1000), '$all has 1000 values');
select pg_temp.fails(pg_temp.list('$all', 1001), 'the list is too long', 'and not 1001');
select pg_temp.works(jsonb_build_object('k', pg_temp.list('$in', 1000) -> 'k' -> '$in'),
    'an any-of list has 1000 values');
select pg_temp.fails(jsonb_build_object('k', pg_temp.list('$in', 1001) -> 'k' -> '$in'),
    'the list is too long', 'and not 1001');
select pg_temp.works(pg_temp.list('$eq', 1000), 'an array to compare with has 1000 values');
select pg_temp.fails(pg_temp.list('$eq', 1001), 'the operand is too large', 'and not 1001');
-- {"k": "aaa"} is the text and 9 bytes around it
select pg_temp.works(jsonb_build_object('k', repeat('a', 65536 - 9)), 'a document has 64 kB');
select pg_temp.fails(jsonb_build_object('k', repeat('a', 65537 - 9)), 'the document is too large',
    'and not a byte more');
select is(
    (select count(*) from unnest(
            '{$like,$nlike,$ilike,$prefix,$suffix,$substr,$ieq,$wildcard,$topic}'::text[])
            as o (operator)
        where pgq.matches(pg_temp.text_of(o.operator, 1024), jsonb_build_object('k',
            repeat('a', 1024))) is not null),
    9::bigint, 'a pattern has 1024 characters');
select pg_temp.fails(pg_temp.text_of(o.operator, 1025), 'the pattern is too long',
    o.operator || ' takes no 1025')
from unnest('{$like,$nlike,$ilike,$prefix,$suffix,$substr,$ieq,$wildcard,$topic}'::text[])
    as o (operator);
select pg_temp.works(pg_temp.text_of('$regex', 512), 'a regular expression has 512 characters');
select pg_temp.fails(pg_temp.text_of('$regex', 513), 'the pattern is too long', 'and not 513');
select pg_temp.works(jsonb_build_object('payload' || repeat('.a', 16), 1), 'a path has 16 keys');
select pg_temp.fails(jsonb_build_object('payload' || repeat('.a', 17), 1), 'the path is too long',
    'and not 17');
select pg_temp.works(jsonb_build_object(repeat('a', 128), 1), 'a key has 128 characters');
select pg_temp.fails(jsonb_build_object(repeat('a', 129), 1), 'the key is too long', 'and not 129');

select pg_temp.fails(jsonb_build_object(repeat('a', 10000), 1), 'the key is too long',
    'and not 10000');
select pg_temp.works(jsonb_build_object('$path', jsonb_build_array('payload', repeat('a', 128)),
    '$eq', 1), 'a key of $path has 128 characters');
select pg_temp.fails(jsonb_build_object('$path', jsonb_build_array('payload', repeat('a', 129)),
    '$eq', 1), '$path has an empty key, or one that is too long', 'and not 129');
select pg_temp.works(jsonb_build_object('$path', '["payload"]' || to_jsonb(array_fill('a'::text,
    '{16}')), '$eq', 1), '$path has 16 keys');
select pg_temp.fails(jsonb_build_object('$path', '["payload"]' || to_jsonb(array_fill('a'::text,
    '{17}')), '$eq', 1), 'the path is too long', 'and not 17');

select * from finish();
rollback;
