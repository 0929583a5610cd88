-- Policies of SNS and patterns of EventBridge have the same meaning as there.
begin;
select no_plan();

-- Words that begin with 38 different characters.
create function pg_temp.word(i int) returns text language sql immutable as $$
    select substr('abcdefghijklmnopqrstuvwxyz0123456789-é', i % 38 + 1, 1)
        || to_hex(i * 7919 % 4096)
$$;

create temp table example (filter jsonb, message jsonb, expected boolean, why text);
insert into example values
    ('{"store": ["example_corp"], "event": ["order_placed", "order_cancelled"]}',
        '{"store": "example_corp", "event": "order_cancelled"}', true,
        'the values of a list are alternatives'),
    ('{"k": [{"prefix": "ba"}]}', '{"k": "bat"}', true, 'prefix matches the start'),
    ('{"k": [{"prefix": "ba"}]}', '{"k": "cba"}', false, 'prefix does not match in the middle'),
    ('{"k": [{"prefix": {"equals-ignore-case": "B_"}}]}', '{"k": "b_t"}', true,
        'prefix may ignore case'),
    ('{"k": [{"prefix": {"equals-ignore-case": "B_"}}]}', '{"k": "bat"}', false,
        'a prefix that ignores case is literal'),
    ('{"k": [{"suffix": {"equals-ignore-case": ".PNG"}}]}', '{"k": "a.png"}', true,
        'suffix may ignore case'),
    ('{"k": [{"suffix": "ball"}]}', '{"k": "baseball"}', true, 'suffix matches the end'),
    ('{"k": [{"equals-ignore-case": "Tennis"}]}', '{"k": "TENNIS"}', true,
        'equals-ignore-case ignores case'),
    ('{"k": [{"exactly": "a"}]}', '{"k": "a"}', true, 'exactly matches the value'),
    ('{"k": [{"wildcard": "*ball"}]}', '{"k": "football"}', true, 'wildcard takes * for any text'),
    ('{"k": [{"exists": true}]}', '{"k": null}', true, 'exists true matches null'),
    ('{"k": [{"exists": false}]}', '{}', true, 'exists false matches a missing field'),
    ('{"k": [{"exists": false}]}', '{"k": 1}', false, 'exists false does not match a value'),
    ('{"k": [{"numeric": ["=", 5]}]}', '{"k": 5.0}', true, 'numeric = compares numbers'),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": 150}', true, 'numeric takes a range'),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": 0}', false,
        'numeric > excludes its bound'),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": [-1, 200]}', false,
        'numeric needs one element within the range'),
    ('{"k": [{"numeric": ["<", 0]}, {"numeric": [">", 9]}]}', '{"k": 10}', true,
        'two numeric ranges are alternatives'),
    ('{"k": [{"anything-but": ["a", "b"]}]}', '{"k": "c"}', true,
        'anything-but a list matches another value'),
    ('{"k": [{"anything-but": ["a", "b"]}]}', '{"k": "b"}', false,
        'anything-but excludes each value of its list'),
    ('{"k": [{"anything-but": [1, 2]}]}', '{"k": 2}', false, 'anything-but excludes numbers'),
    ('{"k": [{"anything-but": "a"}]}', '{}', false, 'anything-but does not match a missing field'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": null}', true, 'anything-but matches null'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": ["a", "b"]}', true,
        'anything-but matches if one element differs'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": ["a", "a"]}', false,
        'anything-but does not match if no element differs'),
    ('{"k": [{"anything-but": {"prefix": "order-"}}]}', '{"k": "data"}', true,
        'anything-but a prefix matches other text'),
    ('{"k": [{"anything-but": {"prefix": "order-"}}]}', '{"k": 5}', true,
        'anything-but a prefix matches a number'),
    ('{"k": [{"anything-but": {"prefix": ["a", "b"]}}]}', '{"k": "bat"}', false,
        'anything-but excludes each of its prefixes'),
    ('{"k": [{"anything-but": {"suffix": ".png"}}]}', '{"k": "a.png"}', false,
        'anything-but excludes a suffix'),
    ('{"k": [{"anything-but": {"equals-ignore-case": ["A", "B"]}}]}', '{"k": "b"}', false,
        'anything-but can ignore case'),
    ('{"k": [{"anything-but": {"wildcard": "*x*"}}]}', '{"k": "axb"}', false,
        'anything-but excludes a wildcard pattern'),
    ('{"k": [{"anything-but": {"wildcard": "*x*"}}]}', '{"k": "ab"}', true,
        'anything-but a wildcard pattern matches other text'),
    ('{"k": [null, ""]}', '{"k": null}', true, 'null and the empty text are values'),
    ('{"k": ["x", {"exists": false}]}', '{}', true,
        'a value or exists false matches a missing field'),
    ('{"k": ["x", {"exists": false}]}', '{"k": "y"}', false,
        'a value or exists false does not match another value'),
    ('{"k": ["b"]}', '{"k": ["a", "b"]}', true, 'a value matches any element of an array'),
    ('{"k": [{"cidr": "10.1.2.0/23"}]}', '{"k": "10.1.3.255"}', true,
        'cidr matches the last address of the network'),
    ('{"k": [{"cidr": "10.1.2.0/23"}]}', '{"k": "10.1.4.0"}', false,
        'cidr does not match the address after the network'),
    ('{"k": [{"cidr": "10.1.3.9/23"}]}', '{"k": "10.1.2.0"}', true,
        'cidr ignores the bits of the host'),
    ('{"k": [{"cidr": "10.0.0.0/8"}]}', '{"k": "10.0.0.256"}', false,
        'cidr does not match an invalid address'),
    ('{"k": [{"cidr": "10.0.0.0/8"}]}', '{"k": "x10.0.0.1"}', false,
        'cidr does not match text before an address'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:DB8:0:0:1::7"}', true,
        'cidr matches an IPv6 address'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:0db8::"}', true,
        'cidr matches an IPv6 address with leading zeros'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:db9::1"}', false,
        'cidr does not match an IPv6 address after the network'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:db8::1::2"}', false,
        'cidr does not match an invalid IPv6 address'),
    ('{"$or": [{"a": [1]}, {"b": [{"exists": true}]}]}', '{"b": 2}', true,
        '$or at the top matches if one filter matches');
select is(pgq.matches(e.filter, e.message), e.expected, 'headers: ' || e.why) from example as e;
select is(pgq.matches(jsonb_build_object('payload', e.filter), '{}', e.message), e.expected,
    'payload: ' || e.why)
from example as e;

-- Nested fields, which only the payload has.
create temp table nested (filter jsonb, payload jsonb, expected boolean, why text);
insert into nested values
    ('{"source": ["aws.ec2"], "detail": {"state": ["running", {"prefix": "stop"}]}}',
        '{"source": "aws.ec2", "detail": {"state": "stopped"}}', true,
        'a pattern can test nested fields'),
    ('{"detail": {"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}}',
        '{"detail": {"b": 2, "c": 3}}', true, '$or can be inside an object of fields'),
    -- array consistency
    ('{"items": {"sku": ["a"], "size": ["L"]}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', false,
        'two conditions must hold for the same element'),
    ('{"items": {"sku": ["a"], "size": ["L"]}}',
        '{"items": [{"sku": "b", "size": "S"}, {"sku": "a", "size": "L"}]}', true,
        'two conditions may hold for any element'),
    ('{"items": {"sku": {"$eq": "a"}, "size": {"$eq": "L"}}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', true,
        '$operators may hold for different elements'),
    ('{"items": {"sku": "a", "size": "L"}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', false,
        'a value alone is a list of one'),
    ('{"items.sku": ["a"], "items": {"size": ["L"]}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', false,
        'the same element is tested however the paths are written'),
    ('{"$and": [{"items.sku": ["a"]}, {"items.size": ["L"]}]}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', true,
        '$and tests each filter separately'),
    ('{"items": {"sku": ["a"], "price": {"eur": [5], "vat": [1]}}}',
        '{"items": [{"sku": "a", "price": [{"eur": 5, "vat": 2}, {"eur": 6, "vat": 1}]}]}', false,
        'two conditions must hold for the same element of a nested array'),
    ('{"items": {"sku": ["a"], "price": {"eur": [5], "vat": [1]}}}',
        '{"items": [{"sku": "a", "price": [{"eur": 5, "vat": 2}, {"eur": 5, "vat": 1}]}]}', true,
        'two conditions may hold for any element of a nested array'),
    ('{"items": {"tags": ["x"], "sizes": ["L"]}}',
        '{"items": [{"tags": ["y", "x"], "sizes": ["L"]}]}', true,
        'arrays of values are independent of each other'),
    ('{"items": {"$or": [{"sku": ["a"]}, {"sku": ["b"]}], "size": ["L"]}}',
        '{"items": [{"sku": "b", "size": "S"}, {"sku": "c", "size": "L"}]}', false,
        '$or below an array tests the element of the other conditions'),
    ('{"items": {"$or": [{"sku": ["a"]}, {"sku": ["b"]}], "size": ["L"]}}',
        '{"items": [{"sku": "b", "size": "L"}]}', true,
        '$or below an array matches if one element passes all conditions'),
    ('{"items": {"size": ["L"], "old": [{"exists": false}]}}',
        '{"items": [{"size": "S", "old": 1}, {"size": "L"}]}', true,
        'exists false tests the element of the other conditions'),
    ('{"items": {"size": ["L"], "old": [{"exists": false}]}}',
        '{"items": [{"size": "S"}, {"size": "L", "old": 1}]}', false,
        'exists false fails if only another element has no such field'),
    ('{"items": {"old": [{"exists": false}]}}', '{"items": [{"size": "S"}, {"old": 1}]}', false,
        'exists false alone tests all elements'),
    ('{"items": {"old": [{"exists": false}]}}', '{}', true,
        'exists false alone matches if there are no elements'),
    ('{"items": {"old": ["x", {"exists": false}]}}', '{"items": [{"old": "y"}, {"old": "x"}]}',
        true, 'a value or exists false matches if one element has the value'),
    ('{"items": {"old": ["x", {"exists": false}]}}', '{"items": [{"old": "y"}, {}]}', false,
        'a value or exists false needs all elements to be without the field'),
    ('{"items": {"a": [{"exists": false}], "b": [{"exists": false}]}}',
        '{"items": [{"a": 1}, {"c": 1}]}', false,
        'several exists false test all elements each'),
    ('{"$not": {"items": {"sku": ["a"], "size": ["L"]}}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', true,
        '$not is the complement of the whole pattern'),
    -- leaves
    ('{"k": [{"exists": true}]}', '{"k": {"x": 1}}', false, 'exists true does not match an object'),
    ('{"k": [{"exists": true}]}', '{"k": []}', false, 'exists true does not match an empty array'),
    ('{"k": [{"exists": true}]}', '{"k": [{"x": 1}]}', false,
        'exists true does not match an array of objects'),
    ('{"k": [{"exists": true}]}', '{"k": [{"x": 1}, 2]}', true,
        'exists true matches an array with a scalar'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": {"x": 1}}', false,
        'anything-but does not match an object'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": []}', false,
        'anything-but does not match an empty array'),
    -- arrays in arrays
    ('{"k": ["a"]}', '{"k": [[[["a"]]]]}', true, 'a value is found four arrays deep'),
    ('{"k": ["a"]}', '{"k": [[[[["a"]]]]]}', false, 'a value is not found five arrays deep'),
    ('{"items": {"sku": ["a"], "size": ["L"]}}', '{"items": [[[[{"sku": "a", "size": "L"}]]]]}',
        true, 'an object is found four arrays deep'),
    -- keys with dots
    ('{"a": {"b": [1]}}', '{"a.b": 1}', true,
        'a dot in a key of the message separates two keys'),
    ('{"a.b": [1]}', '{"a.b": 1}', true,
        'a key with a dot matches the same key in the policy'),
    ('{"a": {"b": {"c": [1]}}}', '{"a": {"b.c": 1}}', true,
        'the last key of a path in the message may have a dot'),
    ('{"a": {"b": {"c": [1]}}}', '{"a.b": {"c": 1}}', true,
        'the first key of a path in the message may have a dot'),
    ('{"a": {"b": [{"exists": false}]}}', '{"a.b": 1}', false,
        'exists false finds a key with a dot'),
    ('{"a": {"b": {"c": {"d": [1]}}}}', '{"a.b.c.d": 1}', true,
        'a key with dots is found by a path of four keys'),
    ('{"a": {"b": {"c": {"d": {"e": [1]}}}}}', '{"a.b.c.d.e": 1}', false,
        'a key with dots is not found by a path of five keys'),
    ('{"a.b": {"$eq": 1}}', '{"a.b": 1}', false,
        '$operators do not find a key with a dot'),
    -- keys of any kind
    ('{"aws:name": ["x"], "@type": ["y"], "_id": [1], "a b": {"é": [2]}}',
        '{"aws:name": "x", "@type": "y", "_id": 1, "a b": {"é": 2}}', true,
        'keys may have any characters');
select is(pgq.matches(jsonb_build_object('payload', e.filter), '{}', e.payload), e.expected, e.why)
from nested as e;
select is(pgq.matches(jsonb_build_object('payload.x', jsonb_build_object('$elemMatch', e.filter)),
    '{}', jsonb_build_object('x', jsonb_build_array(e.payload))), e.expected,
    'inside $elemMatch: ' || e.why)
from nested as e;

-- A list of many patterns gives the same result as each of its patterns alone.
create temp table pattern (operator text, text text);
insert into pattern
select o.operator, t.text
from unnest('{prefix,suffix,equals-ignore-case,wildcard}'::text[]) as o (operator),
    unnest('{a,ab,b,ba*,a*b,*a,%a,a.c,é,A,abc}'::text[]) as t (text);
select is_empty($$
    select v.value, p.list from (
        select array_agg(p.operator || ' ' || p.text) as names,
            jsonb_agg(jsonb_build_object(p.operator, p.text)) as list
        from pattern as p, generate_series(1, 40) as g (number)
        where hashtext(p.operator || p.text || g.number) % 3 = 0 group by g.number) as p,
        unnest('{a,A,ab,aB,abc,b,ba,bax,aab,%a,x%a,a.c,axc,é,É,"",xa,x}'::text[]) as v (value)
    where pgq.matches(jsonb_build_object('payload', jsonb_build_object('k', p.list)), '{}',
            jsonb_build_object('k', v.value))
        <> (select bool_or(pgq.matches(jsonb_build_object('k', jsonb_build_array(a.test)),
            jsonb_build_object('k', v.value))) from jsonb_array_elements(p.list) as a (test))
$$, 'a list of patterns matches what any of them matches');
-- Enough patterns for several regular expressions. The plain beginning of one pattern is often the
-- beginning of another.
select is_empty($$
    select v.value, v.expected
    from pgq.compile_filter(jsonb_build_object('k', (
            select jsonb_agg(jsonb_build_object('wildcard', 'é' || to_hex(i * i) || '*z'))
            from generate_series(1, 200) as i))) as c,
        (select v.value, exists (select from generate_series(1, 200) as i
                where v.value like 'é' || to_hex(i * i) || '%z')
            from (select 'é' || to_hex(j) || e.ending
                from generate_series(1, 3000, 7) as j,
                    unnest('{"",z,0z,fz,~z,zz,~}'::text[]) as e (ending)) as v (value)
        ) as v (value, expected)
    where v.expected <> jsonb_path_match(jsonb_build_object('k', v.value), c.path, '{}', true)
$$, 'a list of 200 patterns matches what any of them matches');

-- Patterns that ignore case: their first letters decide which regular expression is tried.
select is_empty($$
    select v.value, v.expected
    from pgq.compile_filter(jsonb_build_object('k', (
            select jsonb_agg(case i % 3
                when 0 then jsonb_build_object('equals-ignore-case', p.word)
                when 1 then jsonb_build_object('equals-ignore-case', upper(p.word))
                else jsonb_build_object('prefix', jsonb_build_object('equals-ignore-case', p.word))
                end)
            from generate_series(1, 900) as i, pg_temp.word(i) as p (word)))) as c,
        (select v.value, exists (
            select from generate_series(1, 900) as i, pg_temp.word(i) as p (word)
                where lower(v.value) = p.word or i % 3 = 2 and starts_with(lower(v.value), p.word))
            from (select case j % 4 when 0 then w.word when 1 then upper(w.word)
                    when 2 then initcap(w.word) else w.word || 'z' end
                from generate_series(1, 1200) as j, pg_temp.word(j) as w (word)) as v (value)
        ) as v (value, expected)
    where v.expected <> jsonb_path_match(jsonb_build_object('k', v.value), c.path, '{}', true)
$$, 'a list of 900 patterns that ignore case matches what any of them matches');
select ok((select count(distinct m[1]) between 2 and 16 from pgq.compile_filter(
        jsonb_build_object('k', (
            select jsonb_agg(jsonb_build_object('equals-ignore-case', pg_temp.word(i)))
            from generate_series(1, 900) as i))) as c,
    regexp_matches(c.path::text, 'like_regex ("[^"]*")', 'g') as m),
    '900 patterns that ignore case are divided into 2 to 16 regular expressions');

-- a list of many suffixes, on a header, on the payload, and excluded
create function pg_temp.suffixes() returns jsonb language sql as $$
    select jsonb_agg(jsonb_build_object('suffix', '-é' || i)) from generate_series(1, 1000) as i
$$;
select pgq.create_queue('many');
select pgq.publish_batch('many', array_agg(jsonb_build_object('a', jsonb_build_array(
    jsonb_build_object('k', 'x-é' || i, 'l', i), jsonb_build_object('k', 'x', 'l', 0)))),
    array_agg(jsonb_build_object('k', 'x-é' || i)))
from generate_series(1, 1100) as i;
select is((select count(*) from pgq.claim('many', f.filter, n => 2000)), f.expected, f.why)
from (values (jsonb_build_object('payload', jsonb_build_object('a', jsonb_build_object('k',
        pg_temp.suffixes(), 'l', '[0]'::jsonb))), 0::bigint,
        'a suffix and a value in different elements do not match'),
    (jsonb_build_object('k', '[{"prefix": "x-é10"}]'::jsonb, 'payload', jsonb_build_object('a',
        jsonb_build_object('k', pg_temp.suffixes(), 'l', '[100, 101, 1001]'::jsonb))), 2,
        'conditions beside a list of suffixes must hold for the same element'),
    (jsonb_build_object('k', pg_temp.suffixes()), 998,
        'a list of 1000 suffixes matches any of them'),
    (jsonb_build_object('k', jsonb_build_array(jsonb_build_object('anything-but',
        jsonb_build_object('suffix', jsonb_path_query_array(pg_temp.suffixes(),
            '$[*]."suffix"'))))), 100, 'anything-but 1000 suffixes matches all other texts'))
    as f (filter, expected, why);

select is((select e.value from pgq.explain_filter('many',
    jsonb_build_object('k', pg_temp.suffixes())) as e where e.item = 'looks at'), 'headers',
    'explain_filter says that a filter with suffixes reads the headers');

select * from finish();
rollback;
