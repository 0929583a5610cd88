-- Each limit of a filter: the largest document that is accepted, and the smallest that is refused.
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

select pg_temp.works(pg_temp.nested(8), 'a filter may be nested 8 levels deep');
select pg_temp.fails(pg_temp.nested(9), 'the filter is nested too deeply',
    'a filter that is nested 9 levels deep is refused');
select pg_temp.works(pg_temp.descend(8), 'fields may be nested 8 levels deep');
select pg_temp.fails(pg_temp.descend(9), 'the filter is nested too deeply',
    'fields that are nested 9 levels deep are refused');
select pg_temp.works(pg_temp.elements(8), '$elemMatch may be nested 8 levels deep');
select pg_temp.fails(pg_temp.elements(9), 'the filter is nested too deeply',
    '$elemMatch that is nested 9 levels deep is refused');
select pg_temp.works(pg_temp.brackets(8), 'an operand may be nested 8 levels deep');
select pg_temp.fails(pg_temp.brackets(9), 'the operand is nested too deeply',
    'an operand that is nested 9 levels deep is refused');
select pg_temp.works(pg_temp.tests(100), 'a filter may have 100 nodes');
select pg_temp.fails(pg_temp.tests(101), 'the filter has too many nodes',
    'a filter with 101 nodes is refused');
select pg_temp.works(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(99))),
    '$and counts as one node: $and with 99 tests is accepted');
select pg_temp.fails(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(100))),
    'the filter has too many nodes', '$and with 100 tests is refused');
select pg_temp.works(pg_temp.list('$in', 1000), '$in may have 1000 values');
select pg_temp.fails(pg_temp.list('$in', 1001), 'the list is too long',
    '$in with 1001 values is refused');
select pg_temp.works(pg_temp.list('$all', 33), '$all may have 33 values');
select pg_temp.fails(pg_temp.list('$all', 34), 'the filter has too many nodes',
    '$all with 34 values is refused, because it has too many nodes');
select pg_temp.fails(pg_temp.list('$all', 1001), 'the list is too long',
    '$all with 1001 values is refused, because the list is too long');
select pg_temp.works(jsonb_build_object('k', pg_temp.list('$in', 1000) -> 'k' -> '$in'),
    'an any-of list may have 1000 values');
select pg_temp.fails(jsonb_build_object('k', pg_temp.list('$in', 1001) -> 'k' -> '$in'),
    'the list is too long', 'an any-of list with 1001 values is refused');
select pg_temp.works(pg_temp.list('$eq', 25), 'an operand that is an array may have 25 values');
select pg_temp.fails(pg_temp.list('$eq', 26), 'the filter has too many nodes',
    'an operand that is an array of 26 values is refused, because it has too many nodes');
select pg_temp.fails(pg_temp.list('$eq', 1001), 'the operand is too large',
    'an operand that is an array of 1001 values is refused, because it is too large');
-- {"k": "aaa"} has 9 bytes more than the text aaa.
select pg_temp.works(jsonb_build_object('k', repeat('a', 65536 - 9)), 'a document may have 64 kB');
select pg_temp.fails(jsonb_build_object('k', repeat('a', 65537 - 9)), 'the document is too large',
    'a document of 64 kB and one byte is refused');
select is(
    (select count(*) from unnest('{$like,$nlike,$prefix,$suffix,$wildcard}'::text[])
            as o (operator)
        where pgq.matches(pg_temp.text_of(o.operator, 1024), jsonb_build_object('k',
            repeat('a', 1024))) is not null),
    5::bigint, 'a pattern that needs no regular expression may have 1024 characters');
select pg_temp.works(
    pg_temp.text_of(o.operator, o.n), format('%s may have %s characters', o.operator, o.n))
    || E'\n' || pg_temp.fails(pg_temp.text_of(o.operator, o.n + 1), 'the filter has too many nodes',
        format('%s with %s characters is refused: its regular expression costs too much',
            o.operator, o.n + 1))
from (values ('$ilike', 113), ('$ieq', 113), ('$topic', 113), ('$substr', 69), ('$regex', 69))
    as o (operator, n);
select pg_temp.fails(pg_temp.text_of(o.operator, 1025), 'the pattern is too long',
    o.operator || ' with 1025 characters is refused')
from unnest('{$like,$nlike,$ilike,$prefix,$suffix,$substr,$ieq,$wildcard,$topic}'::text[])
    as o (operator);
select pg_temp.fails(pg_temp.text_of('$regex', 513), 'the pattern is too long',
    'a regular expression with 513 characters is refused');
select pg_temp.works(jsonb_build_object('payload' || repeat('.a', 16), 1),
    'a path may have 16 keys');
select pg_temp.fails(jsonb_build_object('payload' || repeat('.a', 17), 1), 'the path is too long',
    'a path with 17 keys is refused');
select pg_temp.works(jsonb_build_object(repeat('a', 128), 1), 'a key may have 128 characters');
select pg_temp.fails(jsonb_build_object(repeat('a', 129), 1), 'the key is too long',
    'a key with 129 characters is refused');

select pg_temp.fails(jsonb_build_object(repeat('a', 10000), 1), 'the key is too long',
    'a key with 10000 characters is refused');
select pg_temp.works(jsonb_build_object('$path', jsonb_build_array('payload', repeat('a', 128)),
    '$eq', 1), 'a key of $path may have 128 characters');
select pg_temp.fails(jsonb_build_object('$path', jsonb_build_array('payload', repeat('a', 129)),
    '$eq', 1), '$path has an empty key, or one that is too long',
    'a key of $path with 129 characters is refused');
select pg_temp.works(jsonb_build_object('$path', '["payload"]' || to_jsonb(array_fill('a'::text,
    '{16}')), '$eq', 1), '$path may have 16 keys');
select pg_temp.fails(jsonb_build_object('$path', '["payload"]' || to_jsonb(array_fill('a'::text,
    '{17}')), '$eq', 1), 'the path is too long', '$path with 17 keys is refused');

-- Tests are counted in nodes by their cost: one node costs about as much as an equality.
create function pg_temp.patterns(operator text, n int) returns jsonb language sql as $$
    select jsonb_agg(jsonb_build_object(operator,
        'x' || 1000 + i || case operator when 'wildcard' then '*-' else '-' end))
    from generate_series(1, n) as i
$$;
create function pg_temp.fields(test jsonb, n int) returns jsonb language sql as $$
    select jsonb_object_agg('k' || i, test) from generate_series(1, n) as i
$$;
select pg_temp.works(jsonb_build_object('k', pg_temp.patterns(o.operator, o.n)),
    format('a list may have %2$s patterns with %1$s', o.operator, o.n))
from (values ('prefix', 1000), ('wildcard', 1000), ('equals-ignore-case', 190), ('suffix', 1000))
    as o (operator, n);
select pg_temp.fails(jsonb_build_object('k', pg_temp.patterns('equals-ignore-case', 1000)),
    'the filter has too many nodes',
    'a list of 1000 patterns that ignore case and share their first letter is refused');
select pg_temp.works(jsonb_build_object('k', (select jsonb_agg(jsonb_build_object(
    'equals-ignore-case', chr(97 + i % 26) || i)) from generate_series(1, 1000) as i)),
    'a list may have 1000 patterns that ignore case and have different first letters');
create function pg_temp.searches(n int) returns jsonb language sql as $$
    select jsonb_agg(jsonb_build_object('wildcard', '*x' || 100 + i || '*'))
    from generate_series(1, n) as i
$$;
select pg_temp.works(jsonb_build_object('k', pg_temp.searches(9)),
    'a list may have 9 patterns that search a text');
select pg_temp.fails(jsonb_build_object('k', pg_temp.searches(10)),
    'the filter has too many nodes', 'a list of 10 patterns that search a text is refused');
select pg_temp.works(jsonb_build_object('k', pg_temp.patterns('suffix', 1000)
    - 999 || pg_temp.patterns('prefix', 1)), 'a list may have 999 suffixes and a prefix');
select pg_temp.fails(jsonb_build_object('k', pg_temp.patterns('suffix', 8),
    'l', pg_temp.patterns('suffix', 8)), 'the filter has too many nodes',
    'a filter with a list of 8 suffixes on each of two fields is refused');
select pg_temp.works(pg_temp.fields(f.test, f.n),
    format('%s on %s fields is accepted', f.test, f.n))
    || E'\n' || pg_temp.fails(pg_temp.fields(f.test, f.n + 1), 'the filter has too many nodes',
        format('%s on %s fields is refused', f.test, f.n + 1))
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
    pg_temp.fields(pg_temp.patterns('prefix', 45), 20))),
    'a list of 45 prefixes counts as one node');
select pg_temp.fails(jsonb_build_object('$and', jsonb_build_array(pg_temp.tests(79),
    pg_temp.fields(pg_temp.patterns('prefix', 46), 20))), 'the filter has too many nodes',
    'a list of 46 prefixes counts as two nodes');
select pg_temp.works(jsonb_build_object('payload', pg_temp.fields('1', 33)),
    'a value of a payload field counts as 3 nodes: 33 fields are accepted');
select pg_temp.fails(jsonb_build_object('payload', pg_temp.fields('1', 34)),
    'the filter has too many nodes', 'values of 34 payload fields are refused');
-- Patterns with text after a wildcard exclude each other if they begin with different plain text.
select pg_temp.works(jsonb_build_object('k', (select jsonb_agg(jsonb_build_object('wildcard',
    chr(97 + i % 26) || chr(97 + i / 26) || '*z')) from generate_series(0, 499) as i)),
    'a list may have 500 wildcard patterns with different beginnings');
select pg_temp.fails(jsonb_build_object('k', (select jsonb_agg(jsonb_build_object('wildcard',
    left('aaaaaaaaaaaaaaaaaaaa', i) || '*z')) from generate_series(1, 10) as i)),
    'the filter has too many nodes',
    'a list of 10 wildcard patterns that can match the same beginning is refused');
select pg_temp.works(jsonb_build_object('k', jsonb_build_object('$regex', repeat('a+', 12))),
    'a regular expression may have 12 quantifiers');
select pg_temp.fails(jsonb_build_object('k', jsonb_build_object('$regex', repeat(r.part, 13))),
    'the regular expression has too many quantifiers', r.part || ' repeated 13 times is refused')
from unnest('{a*,a+,a?,"a{2}"}'::text[]) as r (part);
select pg_temp.works(jsonb_build_object('k', jsonb_build_object('$regex', '(?:a{2,3}b){3}')),
    'bounds inside a group that has bounds are accepted if their product is small');
select pg_temp.fails(jsonb_build_object('k', jsonb_build_object('$regex', r.regex)),
    'the regular expression repeats too much', r.regex || ' repeats too much')
from unnest('{"(?:a{200}){8}","((a{9}){9}){9}","(ab){255}","a{99999999999}"}'::text[]) as r (regex);
select pg_temp.works(jsonb_build_object('k', jsonb_build_object('$like', repeat('_a', 12) || '%')),
    'a pattern may have 12 wildcards before its end');
select pg_temp.fails(jsonb_build_object('k', jsonb_build_object(f.operator, f.pattern)),
    'the pattern has too many wildcards', f.operator || ' with 13 wildcards is refused')
from (values ('$like', repeat('_a', 13)), ('$ilike', repeat('%a', 13)),
    ('$wildcard', repeat('*a', 13))) as f (operator, pattern);

-- The patterns of a field share few regular expressions, whatever their number.
create function pg_temp.regexes(filter jsonb) returns int language sql as $$
    select count(distinct m[1])::int from pgq.compile_filter(filter) as c,
        regexp_matches(c.path::text, 'like_regex ("(?:[^"\\]|\\.)*" flag "[a-z]*")', 'g') as m
$$;
select is(pg_temp.regexes(jsonb_build_object(f.field, pg_temp.patterns(f.operator, f.n))),
    case when f.operator = 'prefix' or f.operator = 'suffix' and f.n >= 8 then 0
        when f.operator = 'wildcard' and f.n = 500 then 16 else 1 end,
    format('%s patterns with %s on %s need few regular expressions', f.n, f.operator, f.field))
from (select * from unnest('{prefix,suffix,equals-ignore-case,wildcard}'::text[]) as o (operator),
    unnest('{1,2,8,33,500}'::int[]) as n (n), unnest('{k,payload.k,payload.a.k}'::text[])
        as i (field)) as f
where f.operator <> 'equals-ignore-case' or f.n <= 33;
select cmp_ok(
    pg_temp.regexes(jsonb_build_object('k', pg_temp.patterns('wildcard', 1000))), '<=', 16,
    '1000 wildcard patterns share at most 16 regular expressions');
select is(pg_temp.regexes(jsonb_build_object('k', pg_temp.patterns('suffix', 3)
    || pg_temp.patterns('wildcard', 5) || '[{"cidr": "10.0.0.0/8"}, {"cidr": "::/8"}]')), 1,
    'patterns of several kinds share one regular expression');
select is(pg_temp.regexes(jsonb_build_object('k', pg_temp.patterns('suffix', 3)
    || pg_temp.patterns('equals-ignore-case', 40))), 2,
    'patterns that ignore case share a second regular expression');
select is(pg_temp.regexes(jsonb_build_object('$not', jsonb_build_object('k', jsonb_build_array(
    jsonb_build_object('anything-but', jsonb_build_object('wildcard',
        (select jsonb_agg('*x' || i || '*') from generate_series(1, 8) as i))))))), 1,
    'the patterns that anything-but excludes share one regular expression');

select * from finish();
rollback;
