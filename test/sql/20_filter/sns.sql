-- Policies of SNS and patterns of EventBridge have the same meaning as there.
begin;
select no_plan();

-- words that begin with letters and digits of all kinds
create function pg_temp.word(i int) returns text language sql immutable as $$
    select substr('abcdefghijklmnopqrstuvwxyz0123456789-é', i % 38 + 1, 1)
        || to_hex(i * 7919 % 4096)
$$;

create temp table example (filter jsonb, message jsonb, expected boolean, why text);
insert into example values
    ('{"store": ["example_corp"], "event": ["order_placed", "order_cancelled"]}',
        '{"store": "example_corp", "event": "order_cancelled"}', true, 'values are alternatives'),
    ('{"k": [{"prefix": "ba"}]}', '{"k": "bat"}', true, 'prefix'),
    ('{"k": [{"prefix": "ba"}]}', '{"k": "cab"}', false, 'prefix is at the start'),
    ('{"k": [{"prefix": {"equals-ignore-case": "B_"}}]}', '{"k": "b_t"}', true,
        'prefix may ignore case'),
    ('{"k": [{"prefix": {"equals-ignore-case": "B_"}}]}', '{"k": "bat"}', false, 'and is literal'),
    ('{"k": [{"suffix": {"equals-ignore-case": ".PNG"}}]}', '{"k": "a.png"}', true,
        'suffix may ignore case'),
    ('{"k": [{"suffix": "ball"}]}', '{"k": "baseball"}', true, 'suffix'),
    ('{"k": [{"equals-ignore-case": "Tennis"}]}', '{"k": "TENNIS"}', true, 'equals-ignore-case'),
    ('{"k": [{"exactly": "a"}]}', '{"k": "a"}', true, 'exactly'),
    ('{"k": [{"wildcard": "*ball"}]}', '{"k": "football"}', true, 'wildcard'),
    ('{"k": [{"exists": true}]}', '{"k": null}', true, 'exists'),
    ('{"k": [{"exists": false}]}', '{}', true, 'exists false'),
    ('{"k": [{"exists": false}]}', '{"k": 1}', false, 'exists false fails on a value'),
    ('{"k": [{"numeric": ["=", 5]}]}', '{"k": 5.0}', true, 'numeric ='),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": 150}', true, 'numeric between'),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": 0}', false, 'numeric excludes its bound'),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": [-1, 200]}', false,
        'numeric asks one element'),
    ('{"k": [{"numeric": ["<", 0]}, {"numeric": [">", 9]}]}', '{"k": 10}', true, 'numeric outside'),
    ('{"k": [{"anything-but": ["a", "b"]}]}', '{"k": "c"}', true, 'anything-but a list'),
    ('{"k": [{"anything-but": ["a", "b"]}]}', '{"k": "b"}', false, 'anything-but excludes each'),
    ('{"k": [{"anything-but": [1, 2]}]}', '{"k": 2}', false, 'anything-but numbers'),
    ('{"k": [{"anything-but": "a"}]}', '{}', false, 'anything-but needs a value'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": null}', true, 'and null is one'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": ["a", "b"]}', true, 'anything-but asks any element'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": ["a", "a"]}', false, 'of which one must differ'),
    ('{"k": [{"anything-but": {"prefix": "order-"}}]}', '{"k": "data"}', true,
        'anything-but a prefix'),
    ('{"k": [{"anything-but": {"prefix": "order-"}}]}', '{"k": 5}', true, 'a number has no prefix'),
    ('{"k": [{"anything-but": {"prefix": ["a", "b"]}}]}', '{"k": "bat"}', false,
        'anything-but prefixes'),
    ('{"k": [{"anything-but": {"suffix": ".png"}}]}', '{"k": "a.png"}', false,
        'anything-but a suffix'),
    ('{"k": [{"anything-but": {"equals-ignore-case": ["A", "B"]}}]}', '{"k": "b"}', false,
        'anything-but ignoring case'),
    ('{"k": [{"anything-but": {"wildcard": "*x*"}}]}', '{"k": "axb"}', false,
        'anything-but a wildcard'),
    ('{"k": [{"anything-but": {"wildcard": "*x*"}}]}', '{"k": "ab"}', true,
        'anything-but a wildcard keeps the rest'),
    ('{"k": [null, ""]}', '{"k": null}', true, 'null and the empty text are values'),
    ('{"k": ["x", {"exists": false}]}', '{}', true, 'a value, or none at all'),
    ('{"k": ["x", {"exists": false}]}', '{"k": "y"}', false, 'but no other'),
    ('{"k": ["b"]}', '{"k": ["a", "b"]}', true, 'an array has any of its elements'),
    ('{"k": [{"cidr": "10.1.2.0/23"}]}', '{"k": "10.1.3.255"}', true, 'cidr'),
    ('{"k": [{"cidr": "10.1.2.0/23"}]}', '{"k": "10.1.4.0"}', false, 'cidr ends'),
    ('{"k": [{"cidr": "10.1.3.9/23"}]}', '{"k": "10.1.2.0"}', true, 'cidr counts bits only'),
    ('{"k": [{"cidr": "10.0.0.0/8"}]}', '{"k": "10.0.0.256"}', false, 'cidr wants an address'),
    ('{"k": [{"cidr": "10.0.0.0/8"}]}', '{"k": "x10.0.0.1"}', false, 'and nothing before it'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:DB8:0:0:1::7"}', true, 'cidr knows IPv6'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:0db8::"}', true, 'in any spelling'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:db9::1"}', false, 'and its end'),
    ('{"k": [{"cidr": "2001:db8::/32"}]}', '{"k": "2001:db8::1::2"}', false, 'and bad spellings'),
    ('{"$or": [{"a": [1]}, {"b": [{"exists": true}]}]}', '{"b": 2}', true, '$or at the top');
select is(pgq.matches(e.filter, e.message), e.expected, 'headers: ' || e.why) from example as e;
select is(pgq.matches(jsonb_build_object('payload', e.filter), '{}', e.message), e.expected,
    'payload: ' || e.why)
from example as e;

-- fields below fields: the payload only
create temp table nested (filter jsonb, payload jsonb, expected boolean, why text);
insert into nested values
    ('{"source": ["aws.ec2"], "detail": {"state": ["running", {"prefix": "stop"}]}}',
        '{"source": "aws.ec2", "detail": {"state": "stopped"}}', true, 'nested patterns'),
    ('{"detail": {"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}}',
        '{"detail": {"b": 2, "c": 3}}', true, '$or inside'),
    -- array consistency
    ('{"items": {"sku": ["a"], "size": ["L"]}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', false,
        'two conditions ask the same element'),
    ('{"items": {"sku": ["a"], "size": ["L"]}}',
        '{"items": [{"sku": "b", "size": "S"}, {"sku": "a", "size": "L"}]}', true,
        'which may be any'),
    ('{"items": {"sku": {"$eq": "a"}, "size": {"$eq": "L"}}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', true,
        'operators with a dollar ask each for itself'),
    ('{"items": {"sku": "a", "size": "L"}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', false,
        'a value alone is a list of one'),
    ('{"items.sku": ["a"], "items": {"size": ["L"]}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', false,
        'however the path is written'),
    ('{"$and": [{"items.sku": ["a"]}, {"items.size": ["L"]}]}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', true,
        '$and takes each filter for itself'),
    ('{"items": {"sku": ["a"], "price": {"eur": [5], "vat": [1]}}}',
        '{"items": [{"sku": "a", "price": [{"eur": 5, "vat": 2}, {"eur": 6, "vat": 1}]}]}', false,
        'arrays in elements too'),
    ('{"items": {"sku": ["a"], "price": {"eur": [5], "vat": [1]}}}',
        '{"items": [{"sku": "a", "price": [{"eur": 5, "vat": 2}, {"eur": 5, "vat": 1}]}]}', true,
        'with any element there'),
    ('{"items": {"tags": ["x"], "sizes": ["L"]}}',
        '{"items": [{"tags": ["y", "x"], "sizes": ["L"]}]}', true,
        'arrays of values are independent of each other'),
    ('{"items": {"$or": [{"sku": ["a"]}, {"sku": ["b"]}], "size": ["L"]}}',
        '{"items": [{"sku": "b", "size": "S"}, {"sku": "c", "size": "L"}]}', false,
        '$or below an array asks the element of the others'),
    ('{"items": {"$or": [{"sku": ["a"]}, {"sku": ["b"]}], "size": ["L"]}}',
        '{"items": [{"sku": "b", "size": "L"}]}', true, 'and finds it'),
    ('{"items": {"size": ["L"], "old": [{"exists": false}]}}',
        '{"items": [{"size": "S", "old": 1}, {"size": "L"}]}', true,
        'exists false asks the element of the others'),
    ('{"items": {"size": ["L"], "old": [{"exists": false}]}}',
        '{"items": [{"size": "S"}, {"size": "L", "old": 1}]}', false, 'and no other element'),
    ('{"items": {"old": [{"exists": false}]}}', '{"items": [{"size": "S"}, {"old": 1}]}', false,
        'exists false alone asks all elements'),
    ('{"items": {"old": [{"exists": false}]}}', '{}', true, 'and is true without any'),
    ('{"items": {"old": ["x", {"exists": false}]}}', '{"items": [{"old": "y"}, {"old": "x"}]}',
        true, 'a value or none: any element has the value'),
    ('{"items": {"old": ["x", {"exists": false}]}}', '{"items": [{"old": "y"}, {}]}', false,
        'or all have none'),
    ('{"items": {"a": [{"exists": false}], "b": [{"exists": false}]}}',
        '{"items": [{"a": 1}, {"c": 1}]}', false, 'several exists false ask all elements each'),
    ('{"$not": {"items": {"sku": ["a"], "size": ["L"]}}}',
        '{"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}', true,
        '$not is the complement of all of it'),
    -- leaves
    ('{"k": [{"exists": true}]}', '{"k": {"x": 1}}', false, 'an object does not exist'),
    ('{"k": [{"exists": true}]}', '{"k": []}', false, 'nor does an empty array'),
    ('{"k": [{"exists": true}]}', '{"k": [{"x": 1}]}', false, 'nor an array of objects'),
    ('{"k": [{"exists": true}]}', '{"k": [{"x": 1}, 2]}', true, 'but one that has a value'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": {"x": 1}}', false, 'an object is not anything'),
    ('{"k": [{"anything-but": "a"}]}', '{"k": []}', false, 'nor is an empty array'),
    -- arrays in arrays
    ('{"k": ["a"]}', '{"k": [[[["a"]]]]}', true, 'values are found four arrays deep'),
    ('{"k": ["a"]}', '{"k": [[[[["a"]]]]]}', false, 'and no deeper'),
    ('{"items": {"sku": ["a"], "size": ["L"]}}', '{"items": [[[[{"sku": "a", "size": "L"}]]]]}',
        true, 'and so are objects'),
    -- keys with dots
    ('{"a": {"b": [1]}}', '{"a.b": 1}', true, 'a dot in a key of the message is a step'),
    ('{"a.b": [1]}', '{"a.b": 1}', true, 'in the policy too'),
    ('{"a": {"b": {"c": [1]}}}', '{"a": {"b.c": 1}}', true, 'at the end'),
    ('{"a": {"b": {"c": [1]}}}', '{"a.b": {"c": 1}}', true, 'and at the start'),
    ('{"a": {"b": [{"exists": false}]}}', '{"a.b": 1}', false, 'for exists, too'),
    ('{"a": {"b": {"c": {"d": [1]}}}}', '{"a.b.c.d": 1}', true, 'in paths of four keys'),
    ('{"a": {"b": {"c": {"d": {"e": [1]}}}}}', '{"a.b.c.d.e": 1}', false, 'and no longer ones'),
    ('{"a.b": {"$eq": 1}}', '{"a.b": 1}', false, 'operators with a dollar do not see it'),
    -- keys of any kind
    ('{"aws:name": ["x"], "@type": ["y"], "_id": [1], "a b": {"é": [2]}}',
        '{"aws:name": "x", "@type": "y", "_id": 1, "a b": {"é": 2}}', true,
        'keys have any characters');
select is(pgq.matches(jsonb_build_object('payload', e.filter), '{}', e.payload), e.expected, e.why)
from nested as e;
select is(pgq.matches(jsonb_build_object('payload.x', jsonb_build_object('$elemMatch', e.filter)),
    '{}', jsonb_build_object('x', jsonb_build_array(e.payload))), e.expected,
    'in an element: ' || e.why)
from nested as e;

-- many patterns mean what each of them means
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
-- so many that the search for the right regular expression has several to choose from; the plain
-- beginning of one pattern is often the beginning of another
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
$$, 'hundreds of patterns, too');

-- the same for patterns that ignore case: their first letters decide which one is tried
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
$$, 'hundreds of patterns that ignore case, too');
select ok((select count(distinct m[1]) between 2 and 16 from pgq.compile_filter(
        jsonb_build_object('k', (
            select jsonb_agg(jsonb_build_object('equals-ignore-case', pg_temp.word(i)))
            from generate_series(1, 900) as i))) as c,
    regexp_matches(c.path::text, 'like_regex ("[^"]*")', 'g') as m),
    'which are in 2 to 16 regular expressions');

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
        'the element that ends with a suffix is another than that which has 0'),
    (jsonb_build_object('k', '[{"prefix": "x-é10"}]'::jsonb, 'payload', jsonb_build_object('a',
        jsonb_build_object('k', pg_temp.suffixes(), 'l', '[100, 101, 1001]'::jsonb))), 2,
        'conditions beside a list of suffixes hold for the same element'),
    (jsonb_build_object('k', pg_temp.suffixes()), 998, 'a list has 1000 suffixes'),
    (jsonb_build_object('k', jsonb_build_array(jsonb_build_object('anything-but',
        jsonb_build_object('suffix', jsonb_path_query_array(pg_temp.suffixes(),
            '$[*]."suffix"'))))), 100, 'what no suffix excludes is left'))
    as f (filter, expected, why);

select is((select e.value from pgq.explain_filter('many',
    jsonb_build_object('k', pg_temp.suffixes())) as e where e.item = 'looks at'), 'headers',
    'explain_filter names what a filter with suffixes reads');

select * from finish();
rollback;
