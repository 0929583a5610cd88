-- Each limit of a filter: the last document that is accepted, and the first that is not.
begin;
select no_plan();

create function pg_temp.nested(depth int) returns jsonb language sql as $$
    select (repeat('{"$and": [', depth - 1) || '{"k": 1}' || repeat(']}', depth - 1))::jsonb
$$;
create function pg_temp.descend(depth int) returns jsonb language sql as $$
    select ('{"payload": ' || repeat('{"a": ', depth - 1) || '1' || repeat('}', depth))::jsonb
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
select pg_temp.works(pg_temp.tests(100), 'a filter has 100 nodes');
select pg_temp.fails(pg_temp.tests(101), 'the filter has too many nodes', 'and not 101');
select pg_temp.works(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(99))),
    'a logical operator is one of the nodes');
select pg_temp.fails(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(100))),
    'the filter has too many nodes', 'so that fewer tests fit');
select pg_temp.works(pg_temp.list('$in', 1000), 'a list has 1000 values');
select pg_temp.fails(pg_temp.list('$in', 1001), 'the list is too long', 'and not 1001');
select pg_temp.works(pg_temp.list('$all', 33), '$all has 33 values');
select pg_temp.fails(pg_temp.list('$all', 34), 'the filter has too many nodes', 'and not 34');
select pg_temp.fails(pg_temp.list('$all', 1001), 'the list is too long', 'and not 1001');
select pg_temp.works(jsonb_build_object('k', pg_temp.list('$in', 1000) -> 'k' -> '$in'),
    'an any-of list has 1000 values');
select pg_temp.fails(jsonb_build_object('k', pg_temp.list('$in', 1001) -> 'k' -> '$in'),
    'the list is too long', 'and not 1001');
select pg_temp.works(pg_temp.list('$eq', 25), 'an array to compare with has 25 values');
select pg_temp.fails(pg_temp.list('$eq', 26), 'the filter has too many nodes', 'and not 26');
select pg_temp.fails(pg_temp.list('$eq', 1001), 'the operand is too large', 'and not 1001');
-- {"k": "aaa"} is the text and 9 bytes around it
select pg_temp.works(jsonb_build_object('k', repeat('a', 65536 - 9)), 'a document has 64 kB');
select pg_temp.fails(jsonb_build_object('k', repeat('a', 65537 - 9)), 'the document is too large',
    'and not a byte more');
select is(
    (select count(*) from unnest('{$like,$nlike,$prefix,$suffix,$wildcard}'::text[])
            as o (operator)
        where pgq.matches(pg_temp.text_of(o.operator, 1024), jsonb_build_object('k',
            repeat('a', 1024))) is not null),
    5::bigint, 'a pattern has 1024 characters');
select pg_temp.works(
    pg_temp.text_of(o.operator, o.n), format('%s has %s characters', o.operator, o.n))
    || E'\n' || pg_temp.fails(pg_temp.text_of(o.operator, o.n + 1), 'the filter has too many nodes',
        'and no more, because it is a regular expression')
from (values ('$ilike', 113), ('$ieq', 113), ('$topic', 113), ('$substr', 69), ('$regex', 69))
    as o (operator, n);
select pg_temp.fails(pg_temp.text_of(o.operator, 1025), 'the pattern is too long',
    o.operator || ' takes no 1025')
from unnest('{$like,$nlike,$ilike,$prefix,$suffix,$substr,$ieq,$wildcard,$topic}'::text[])
    as o (operator);
select pg_temp.fails(pg_temp.text_of('$regex', 513), 'the pattern is too long',
    'a regular expression has no 513 characters');
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

-- what is tested is counted: a node is about what an equality takes
create function pg_temp.patterns(operator text, n int) returns jsonb language sql as $$
    select jsonb_agg(jsonb_build_object(operator,
        'x' || 1000 + i || case operator when 'wildcard' then '*-' else '-' end))
    from generate_series(1, n) as i
$$;
create function pg_temp.fields(test jsonb, n int) returns jsonb language sql as $$
    select jsonb_object_agg('k' || i, test) from generate_series(1, n) as i
$$;
select pg_temp.works(jsonb_build_object('k', pg_temp.patterns(o.operator, o.n)),
    format('%s may stand %s times in a list', o.operator, o.n))
from (values ('prefix', 1000), ('wildcard', 1000), ('equals-ignore-case', 190), ('suffix', 1000))
    as o (operator, n);
select pg_temp.fails(jsonb_build_object('k', pg_temp.patterns('equals-ignore-case', 1000)),
    'the filter has too many nodes', 'patterns with the same first letter count together');
select pg_temp.works(jsonb_build_object('k', (select jsonb_agg(jsonb_build_object(
    'equals-ignore-case', chr(97 + i % 26) || i)) from generate_series(1, 1000) as i)),
    'with different first letters there may be 1000');
create function pg_temp.searches(n int) returns jsonb language sql as $$
    select jsonb_agg(jsonb_build_object('wildcard', '*x' || 100 + i || '*'))
    from generate_series(1, n) as i
$$;
select pg_temp.works(jsonb_build_object('k', pg_temp.searches(9)),
    'a list has 9 patterns that search a text');
select pg_temp.fails(jsonb_build_object('k', pg_temp.searches(10)),
    'the filter has too many nodes', 'and not 10, because they count most');
select pg_temp.works(jsonb_build_object('k', pg_temp.patterns('suffix', 1000)
    - 999 || pg_temp.patterns('prefix', 1)), 'suffixes and prefixes search no text');
select pg_temp.fails(jsonb_build_object('k', pg_temp.patterns('suffix', 8),
    'l', pg_temp.patterns('suffix', 8)), 'the filter has too many nodes',
    'texts of one field are read backwards, not of two');
select pg_temp.works(pg_temp.fields(f.test, f.n), format('%s fits on %s fields', f.test, f.n))
    || E'\n' || pg_temp.fails(pg_temp.fields(f.test, f.n + 1), 'the filter has too many nodes',
        'and no more')
from (values ('1'::jsonb, 100), ('[1, 2]', 50), ('{"$in": [1, 2]}', 50),
    ('{"$in": [1, 2, 3, 4, 5, 6, 7, 8]}', 12), ('{"$in": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}', 12),
    ('{"$nin": [1]}', 33), ('{"$nin": [1, 2]}', 25), ('{"$ne": 1}', 33), ('{"$gt": 1}', 33),
    ('{"$between": [1, 2]}', 33), ('{"$mod": [2, 1]}', 33), ('{"$isNull": true}', 33),
    ('{"$exists": true}', 100), ('{"$type": "string"}', 100), ('{"$size": 1}', 33),
    ('{"$eq": [1]}', 33), ('{"$eq": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}', 2),
    ('{"$contains": [1]}', 20), ('{"$all": [1, 2]}', 16), ('{"$elemMatch": {"$eq": 1}}', 16),
    ('[{"exists": true}]', 100), ('[{"numeric": ["=", 1]}]', 33), ('[{"anything-but": 1}]', 33),
    ('[{"anything-but": [1, 2]}]', 25), ('[{"prefix": "a"}]', 100), ('{"$like": "a%"}', 100),
    ('{"$like": "a"}', 100), ('{"$wildcard": "a*"}', 100), ('{"$ieq": "a"}', 14),
    ('{"$ilike": "a"}', 14), ('{"$like": "a_b"}', 12), ('{"$topic": "a.*"}', 12),
    ('{"$like": "%a"}', 4), ('{"$nlike": "%a"}', 4), ('{"$substr": "a"}', 5),
    ('{"$regex": "a"}', 5), ('{"$regex": "^a.b"}', 12), ('{"$regex": "[a-z].b"}', 1),
    ('{"$topic": "a.#.b"}', 4), ('[{"suffix": "a"}]', 5), ('{"$wildcard": "a*b"}', 4),
    ('[{"anything-but": {"suffix": "a"}}]', 4), ('[{"cidr": "10.0.0.0/8"}]', 7),
    ('[{"cidr": "::/8"}]', 3)) as f (test, n);
select pg_temp.works(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(79),
    pg_temp.fields(pg_temp.patterns('prefix', 45), 20))), '45 prefixes are one');
select pg_temp.fails(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(79),
    pg_temp.fields(pg_temp.patterns('prefix', 46), 20))), 'the filter has too many nodes',
    '46 prefixes are two');
select pg_temp.works(jsonb_build_object('payload', pg_temp.fields('1', 33)),
    'a list of the payload counts for 3');
select pg_temp.fails(jsonb_build_object('payload', pg_temp.fields('1', 34)),
    'the filter has too many nodes', 'so that 34 are too many');
-- of patterns that go on anywhere those count that a text can begin with at once
select pg_temp.works(jsonb_build_object('k', (select jsonb_agg(jsonb_build_object('wildcard',
    chr(97 + i % 26) || chr(97 + i / 26) || '*z')) from generate_series(0, 499) as i)),
    'a text begins with one of 500 beginnings');
select pg_temp.fails(jsonb_build_object('k', (select jsonb_agg(jsonb_build_object('wildcard',
    left('aaaaaaaaaaaaaaaaaaaa', i) || '*z')) from generate_series(1, 10) as i)),
    'the filter has too many nodes', 'or with all of 10');
select pg_temp.works(jsonb_build_object('k', jsonb_build_object('$regex', repeat('a+', 12))),
    'a regular expression has 12 quantifiers');
select pg_temp.fails(jsonb_build_object('k', jsonb_build_object('$regex', repeat(r.part, 13))),
    'the regular expression has too many quantifiers', r.part || ' 13 times is too much')
from unnest('{a*,a+,a?,"a{2}"}'::text[]) as r (part);
select pg_temp.works(jsonb_build_object('k', jsonb_build_object('$regex', '(?:a{2,3}b){3}')),
    'bounds are multiplied by those of groups');
select pg_temp.fails(jsonb_build_object('k', jsonb_build_object('$regex', r.regex)),
    'the regular expression repeats too much', r.regex || ' repeats too much')
from unnest('{"(?:a{200}){8}","((a{9}){9}){9}","(ab){255}","a{99999999999}"}'::text[]) as r (regex);
select pg_temp.works(jsonb_build_object('k', jsonb_build_object('$like', repeat('_a', 12) || '%')),
    'a pattern has 12 wildcards before its end');
select pg_temp.fails(jsonb_build_object('k', jsonb_build_object(f.operator, f.pattern)),
    'the pattern has too many wildcards', f.operator || ' takes no 13')
from (values ('$like', repeat('_a', 13)), ('$ilike', repeat('%a', 13)),
    ('$wildcard', repeat('*a', 13))) as f (operator, pattern);

-- what runs: alternatives of a field are one regular expression, whatever their number
create function pg_temp.regexes(filter jsonb) returns int language sql as $$
    select count(distinct m[1])::int from pgq.compile_filter(filter) as c,
        regexp_matches(c.path::text, 'like_regex ("(?:[^"\\]|\\.)*" flag "[a-z]*")', 'g') as m
$$;
select is(pg_temp.regexes(jsonb_build_object(f.field, pg_temp.patterns(f.operator, f.n))),
    case when f.operator = 'prefix' or f.operator = 'suffix' and f.n >= 8 then 0
        when f.operator = 'wildcard' and f.n = 500 then 16 else 1 end,
    format('%s %s on %s are few regular expressions', f.n, f.operator, f.field))
from (select * from unnest('{prefix,suffix,equals-ignore-case,wildcard}'::text[]) as o (operator),
    unnest('{1,2,8,33,500}'::int[]) as n (n), unnest('{k,payload.k,payload.a.k}'::text[])
        as i (field)) as f
where f.operator <> 'equals-ignore-case' or f.n <= 33;
select cmp_ok(
    pg_temp.regexes(jsonb_build_object('k', pg_temp.patterns('wildcard', 1000))), '<=', 16,
    'and no more of 1000');
select is(pg_temp.regexes(jsonb_build_object('k', pg_temp.patterns('suffix', 3)
    || pg_temp.patterns('wildcard', 5) || '[{"cidr": "10.0.0.0/8"}, {"cidr": "::/8"}]')), 1,
    'patterns of several kinds are one');
select is(pg_temp.regexes(jsonb_build_object('k', pg_temp.patterns('suffix', 3)
    || pg_temp.patterns('equals-ignore-case', 40))), 2, 'those that ignore case are another');
select is(pg_temp.regexes(jsonb_build_object('$not', jsonb_build_object('k', jsonb_build_array(
    jsonb_build_object('anything-but', jsonb_build_object('wildcard',
        (select jsonb_agg('*x' || i || '*') from generate_series(1, 8) as i))))))), 1,
    'what anything-but excludes is one');

select * from finish();
rollback;
