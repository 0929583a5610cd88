-- Invalid filters raise QU004, with the place in DETAIL and the cure in HINT.
begin;
select no_plan();

create function pg_temp.refusal(filter jsonb) returns text language plpgsql as $$
declare
    v_message text;
    v_detail text;
    v_hint text;
begin
    perform pgq.compile_filter(filter);
    return 'accepted';
exception when sqlstate 'QU004' then
    get stacked diagnostics v_message = message_text, v_detail = pg_exception_detail,
        v_hint = pg_exception_hint;
    return case
        when v_hint = '' or v_message ~ '[\n]' or v_message !~ '^invalid filter: ' then 'bad form'
        else v_detail end;
end
$$;

create temp table refused (filter jsonb, place text, why text);
insert into refused values
    ('"a"', '$', 'a filter is an object'),
    ('[]', '$', 'a list is no filter'),
    ('true', '$', 'a boolean is no filter'),
    ('{"$foo": 1}', '$.$foo', 'an unknown operator outside a field is refused'),
    ('{"$gt": 1}', '$.$gt', 'an operator needs a field'),
    ('{"k": {"$foo": 1}}', '$.k.$foo', 'an unknown operator is refused'),
    ('{"k": {"$EQ": 1}}', '$.k.$EQ', 'operators are case-sensitive'),
    ('{"k": {}}', '$.k', 'an empty test is refused'),
    ('{"k": []}', '$.k', 'an empty list is refused'),
    ('{"k": {"$gt": 1, "x": 2}}', '$.k', 'operators and fields do not mix'),
    ('{"k": {"$not": {"$gt": 1}}}', '$.k.$not.$gt', '$not must be outside the field'),
    ('{"k": {"$gt": 1, "$or": [{}]}}', '$.k.$or', '$or and operators do not mix'),
    ('{"": 1}', '$.', 'an empty key is refused'),
    ('{"payload": {"$a": 1}}', '$.payload.$a', 'a key does not begin with a dollar'),
    ('{"payload": {"a": {"b.": ["x"]}}}', '$.payload.a.b.', 'a path in a policy has no empty key'),
    ('{"headers.a.b": 1}', '$.headers.a.b', 'a header has no nested fields'),
    ('{"a": {"b": ["x"]}}', '$.a.b', 'a header in a policy has no nested fields'),
    ('{"$path": ["headers", "a", "b"], "$eq": 1}', '$.$path',
        '$path cannot name a nested field of a header'),
    ('{"key": {"prefix": "x"}}', '$.key', 'an SNS operator on a header must be in a list'),
    ('{"payload": {"k": {"prefix": "x"}}}', '$.payload.k',
        'an SNS operator on a field must be in a list'),
    ('{"payload": {"k": {"exists": true}}}', '$.payload.k', 'exists on a field must be in a list'),
    ('{"payload": {"k": {"prefix": {"equals-ignore-case": "x"}}}}', '$.payload.k.prefix',
        'an SNS operator inside another one must be in a list'),
    ('{"payload": {"$or": [{"a": [1]}, {"numeric": [">", 1]}]}}', '$.payload.$or[1]',
        'an SNS operator cannot be a field in $or'),
    ('{"$or": [{"cidr": "10.0.0.0/8"}, {"a": 1}]}', '$.$or[0]',
        'an SNS operator with a text cannot be a field in $or'),
    ('{"foo.bar": 1}', '$.foo.bar', 'a path starts with a scope'),
    ('{"payload.": 1}', '$.payload.', 'a path does not end with a dot'),
    ('{"payload..a": 1}', '$.payload..a', 'a path has no empty key'),
    ('{".a": 1}', '$..a', 'a path does not start with a dot'),
    ('{"payload": 1}', '$.payload', 'a scope is not a field'),
    ('{"payload": [1]}', '$.payload', 'a scope takes no list'),
    ('{"payload": null}', '$.payload', 'a scope takes no null'),
    ('{"payload": {"$gt": 1}}', '$.payload.$gt', 'a scope takes no operator'),
    ('{"msg.size": 1}', '$.msg.size', 'an unknown field of msg is refused'),
    ('{"msg": {"foo": 1}}', '$.msg.foo', 'an unknown field in a msg block is refused'),
    ('{"msg.topic.a": 1}', '$.msg.topic.a', 'a field of msg has no nested fields'),
    ('{"msg.topic": {"a": 1}}', '$.msg.topic', 'a field of msg takes no object of fields'),
    ('{"$and": []}', '$.$and', '$and is not empty'),
    ('{"$or": {}}', '$.$or', '$or takes a list'),
    ('{"$nor": "a"}', '$.$nor', '$nor takes a list'),
    ('{"$or": [{"a": 1}, 5]}', '$.$or[1]', '$or takes filters'),
    ('{"$not": [1]}', '$.$not', '$not takes a filter'),
    ('{"$const": 1}', '$.$const', '$const is a boolean'),
    ('{"$path": ["payload", "a"]}', '$', '$path needs an operator'),
    ('{"$path": ["payload", "a"], "k": 1}', '$', '$path and fields do not mix'),
    ('{"$path": ["payload", "a"], "$and": [{}]}', '$', '$path and $and do not mix'),
    ('{"$path": "payload.a", "$eq": 1}', '$.$path', '$path is a list'),
    ('{"$path": [], "$eq": 1}', '$.$path', '$path is not empty'),
    ('{"$path": ["payload"], "$eq": 1}', '$.$path', '$path must name a key'),
    ('{"$path": ["foo", "a"], "$eq": 1}', '$.$path', '$path must begin with a scope'),
    ('{"$path": ["payload", ""], "$eq": 1}', '$.$path', '$path has no empty key'),
    ('{"$path": ["payload", 1], "$eq": 1}', '$.$path', '$path takes strings only'),
    ('{"$path": ["msg", "foo"], "$eq": 1}', '$.$path', '$path refuses an unknown field of msg'),
    ('{"k": {"$in": "a"}}', '$.k.$in', '$in takes a list'),
    ('{"k": {"$in": []}}', '$.k.$in', '$in is not empty'),
    ('{"k": {"$nin": []}}', '$.k.$nin', '$nin is not empty'),
    ('{"k": {"$in": [["a"]]}}', '$.k.$in', '$in takes scalars'),
    ('{"k": {"$gt": null}}', '$.k.$gt', 'null has no order'),
    ('{"k": {"$gt": true}}', '$.k.$gt', 'booleans have no order'),
    ('{"k": {"$lt": [1]}}', '$.k.$lt', 'arrays have no order'),
    ('{"k": {"$between": [1]}}', '$.k.$between', '$between takes two bounds'),
    ('{"k": {"$between": [1, "a"]}}', '$.k.$between', '$between takes one type'),
    ('{"k": {"$between": 1}}', '$.k.$between', '$between takes a list'),
    ('{"k": {"$like": 5}}', '$.k.$like', '$like takes a text'),
    ('{"k": {"$like": null}}', '$.k.$like', '$like takes no null'),
    ('{"k": {"$like": "a\\"}}', '$.k.$like', 'a pattern does not end in an escape'),
    ('{"k": {"$wildcard": "a\\b"}}', '$.k.$wildcard', '$wildcard escapes star and backslash only'),
    ('{"k": {"$prefix": ["a"]}}', '$.k.$prefix', '$prefix takes a text'),
    ('{"k": {"$regex": "("}}', '$.k.$regex', 'a regular expression must compile'),
    ('{"k": {"$regex": "a{2,1}"}}', '$.k.$regex', 'a regular expression must have valid bounds'),
    ('{"k": {"$regex": "(a)\\1"}}', '$.k.$regex', 'back-references are refused'),
    ('{"k": {"$regex": "(a)\\\\\\1"}}', '$.k.$regex',
        'a back-reference after an escaped backslash is refused'),
    ('{"k": {"$regex": "(a{1,255}){1,255}"}}', '$.k.$regex', 'a huge expression is refused'),
    ('{"k": {"$regex": "a", "$options": "x"}}', '$.k.$regex', 'the only option is i'),
    ('{"k": {"$regex": "a", "$options": null}}', '$.k.$regex', 'null is no option'),
    ('{"k": {"$options": "i"}}', '$.k.$options', '$options belongs to $regex'),
    ('{"k": {"$topic": "ord*"}}', '$.k.$topic', 'a wildcard is a whole word'),
    ('{"k": {"$topic": "a..b"}}', '$.k.$topic', 'a topic has no empty word'),
    ('{"k": {"$topic": ""}}', '$.k.$topic', 'a topic is not empty'),
    ('{"k": {"$exists": "yes"}}', '$.k.$exists', '$exists takes a boolean'),
    ('{"k": {"$isNull": 1}}', '$.k.$isNull', '$isNull takes a boolean'),
    ('{"k": {"$type": "int"}}', '$.k.$type', '$type takes only the names of JSON types'),
    ('{"k": {"$type": null}}', '$.k.$type', '$type takes a name'),
    ('{"k": {"$all": []}}', '$.k.$all', '$all is not empty'),
    ('{"k": {"$size": -1}}', '$.k.$size', 'a size is not negative'),
    ('{"k": {"$size": 1.5}}', '$.k.$size', 'a size is whole'),
    ('{"k": {"$size": "1"}}', '$.k.$size', 'a size is a number'),
    ('{"k": {"$elemMatch": {}}}', '$.k.$elemMatch', '$elemMatch is not empty'),
    ('{"k": {"$elemMatch": 1}}', '$.k.$elemMatch', '$elemMatch takes an object'),
    ('{"k": {"$elemMatch": {"$gt": 1, "a": 2}}}', '$.k.$elemMatch',
        'operators and fields do not mix in $elemMatch'),
    ('{"k": {"$contains": null}}', '$.k.$contains', '$contains takes no null'),
    ('{"k": {"$mod": [0, 1]}}', '$.k.$mod', 'the divisor of $mod is not 0'),
    ('{"k": {"$mod": [2]}}', '$.k.$mod', '$mod takes two numbers'),
    ('{"k": {"$mod": [2.5, 1]}}', '$.k.$mod', '$mod takes whole numbers'),
    ('{"k": {"$mod": ["2", 1]}}', '$.k.$mod', '$mod takes numbers'),
    ('{"k": {"$gt": {"$now": "1 h"}}}', '$.k.$gt', '$now is for timestamps'),
    ('{"k": {"$eq": {"$now": "1 h"}}}', '$.k.$eq', '$now is for timestamps, in $eq too'),
    ('{"k": {"$now": "1 h"}}', '$.k.$now', '$now is an operand, not an operator'),
    ('{"msg.published_at": 5}', '$.msg.published_at', 'a number is no timestamp'),
    ('{"msg.published_at": "now"}', '$.msg.published_at',
        'now is refused: it would become a constant'),
    ('{"msg.published_at": "infinity"}', '$.msg.published_at', 'infinity is no timestamp'),
    ('{"msg.published_at": "2030-13-01"}', '$.msg.published_at', 'there is no month 13'),
    ('{"msg.published_at": "01.02.2030"}', '$.msg.published_at', 'timestamps are ISO 8601'),
    ('{"msg.published_at": {"$like": "2030%"}}', '$.msg.published_at.$like',
        'a timestamp takes no $like'),
    ('{"msg.published_at": {"$gt": {"$now": "soon"}}}', '$.msg.published_at.$gt',
        'soon is no interval'),
    ('{"msg.published_at": {"$gt": {"$now": 5}}}', '$.msg.published_at.$gt',
        'an interval is a text'),
    ('{"msg.published_at": {"$gt": {"$now": "1 h", "a": 1}}}', '$.msg.published_at.$gt',
        '$now takes no other key beside it'),
    ('{"k": [["a"]]}', '$.k[0]', 'a list holds no list'),
    ('{"k": [{}]}', '$.k[0]', 'a list holds no empty object'),
    ('{"k": ["a", {"prefix": "a", "suffix": "b"}]}', '$.k[1]', 'one operator per object'),
    ('{"k": [{"$gt": 1}]}', '$.k[0].$gt', 'no $operators in a list'),
    ('{"k": [{"cidr": 5}]}', '$.k[0].cidr', 'cidr takes a text'),
    ('{"k": [{"cidr": "10.0.0.0"}]}', '$.k[0].cidr', 'cidr takes a network'),
    ('{"k": [{"cidr": "10.0.0.0/32"}]}', '$.k[0].cidr', 'a network of one IPv4 address is refused'),
    ('{"k": [{"cidr": "::1/128"}]}', '$.k[0].cidr', 'a network of one IPv6 address is refused'),
    ('{"k": [{"cidr": "10.0.0.0/33"}]}', '$.k[0].cidr', 'an IPv4 mask has at most 32 bits'),
    ('{"k": [{"cidr": "10.0.0.256/24"}]}', '$.k[0].cidr',
        'a byte of an IPv4 address is at most 255'),
    ('{"k": [{"cidr": "10.0/16"}]}', '$.k[0].cidr', 'an IPv4 address has four numbers'),
    ('{"k": [{"cidr": "g::/16"}]}', '$.k[0].cidr', 'an IPv6 address has hexadecimal digits'),
    ('{"k": [{"exactly": 1}]}', '$.k[0].exactly', 'exactly takes a text'),
    ('{"k": [{"wildcard": "a**b"}]}', '$.k[0].wildcard', 'a star does not follow a star'),
    ('{"k": [{"wildcard": ["a"]}]}', '$.k[0].wildcard', 'wildcard takes one text'),
    ('{"k": {"$regex": "a(?=b)"}}', '$.k.$regex', 'lookahead is refused'),
    ('{"k": {"$regex": "a(?!b)"}}', '$.k.$regex', 'negative lookahead is refused'),
    ('{"k": {"$regex": "(?<=a)b"}}', '$.k.$regex', 'lookbehind is refused'),
    ('{"k": {"$regex": "[(](?<!a)b"}}', '$.k.$regex', 'negative lookbehind is refused'),
    ('{"k": [{"prefix": 1}]}', '$.k[0].prefix', 'prefix takes a text'),
    ('{"k": [{"prefix": {"suffix": "a"}}]}', '$.k[0].prefix',
        'prefix takes no operator but equals-ignore-case'),
    ('{"k": [{"exists": 1}]}', '$.k[0].exists', 'exists takes a boolean'),
    ('{"k": [{"numeric": [">"]}]}', '$.k[0].numeric', 'numeric takes pairs'),
    ('{"k": [{"numeric": ["!", 1]}]}', '$.k[0].numeric', 'numeric refuses an unknown comparison'),
    ('{"k": [{"numeric": [">", "1"]}]}', '$.k[0].numeric', 'numeric takes numbers'),
    ('{"k": [{"numeric": [">", 1, ">=", 2]}]}', '$.k[0].numeric', 'numeric takes one lower bound'),
    ('{"k": [{"numeric": ["=", 1, "<", 2]}]}', '$.k[0].numeric',
        'numeric = takes no second comparison'),
    ('{"k": [{"numeric": []}]}', '$.k[0].numeric', 'numeric is not empty'),
    ('{"k": [{"numeric": ["<", 2, ">", 1]}]}', '$.k[0].numeric',
        'numeric takes the lower bound first'),
    ('{"k": [{"numeric": [">", 2, "<", 1]}]}', '$.k[0].numeric', 'numeric refuses an empty range'),
    ('{"k": [{"numeric": [">=", 2, "<=", 2]}]}', '$.k[0].numeric',
        'numeric refuses a range of one number'),
    ('{"k": [{"numeric": ["<", 1e309]}]}', '$.k[0].numeric',
        'numeric refuses a number too large for a double'),
    ('{"k": [{"numeric": ["=", 1e-330]}]}', '$.k[0].numeric',
        'numeric refuses a number too small for a double'),
    ('{"msg.published_at": [{"prefix": "2030"}]}', '$.msg.published_at[0].prefix',
        'a timestamp has no prefix'),
    ('{"msg.published_at": [{"numeric": [">", 1]}]}', '$.msg.published_at[0].numeric',
        'a timestamp takes no numeric'),
    ('{"k": [{"anything-but": null}]}', '$.k[0].anything-but', 'anything-but takes no null'),
    ('{"k": [{"anything-but": ["a", null]}]}', '$.k[0].anything-but',
        'anything-but takes no null in a list'),
    ('{"k": [{"anything-but": [true]}]}', '$.k[0].anything-but', 'anything-but takes no boolean'),
    ('{"k": [{"anything-but": ["a", 1]}]}', '$.k[0].anything-but',
        'anything-but takes values of one type'),
    ('{"k": [{"anything-but": {"prefix": ""}}]}', '$.k[0].anything-but',
        'anything-but takes no empty prefix'),
    ('{"k": [{"anything-but": {"suffix": ["a", ""]}}]}', '$.k[0].anything-but',
        'anything-but takes no empty suffix'),
    ('{"k": [{"anything-but": {"prefix": {"equals-ignore-case": "a"}}}]}',
        '$.k[0].anything-but.prefix', 'anything-but takes no operator inside its prefix'),
    ('{"k": [{"anything-but": []}]}', '$.k[0].anything-but', 'anything-but is not empty'),
    ('{"k": [{"anything-but": {"numeric": [">", 1]}}]}', '$.k[0].anything-but',
        'anything-but takes text operators'),
    ('{"k": [{"anything-but": {}}]}', '$.k[0].anything-but', 'anything-but takes no empty object');

select is(pg_temp.refusal(r.filter), 'At ' || r.place || '.', r.why) from refused as r;

select throws_ok($$select pgq.matches('{"k": {"$foo": 1}}', '{}')$$, 'QU004', null,
    'matches refuses an invalid filter');
select throws_ok($$select pgq._filter_parse('{"k": {"$foo": 1}}')$$, 'QU004',
    'invalid filter: unknown operator $foo', 'the message names the operator');
select throws_ok($$select '{"k": "\u0000"}'::jsonb$$, '22P05', null,
    'jsonb refuses a null character, so no filter has one');

-- A hint uses the syntax of the refused filter: operators of SNS, or $operators.
create function pg_temp.hint(filter jsonb) returns text language plpgsql as $$
declare
    v_hint text;
begin
    perform pgq.compile_filter(filter);
    return 'accepted';
exception when sqlstate 'QU004' then
    get stacked diagnostics v_hint = pg_exception_hint;
    return v_hint;
end
$$;
select alike(pg_temp.hint(h.filter), h.hint, h.filter::text || ' gets a hint in its own syntax')
from (values
    ('{"payload": {"a": {"b.": ["x"]}}}'::jsonb, '%{"$path": ["a.b"], "$eq": ...}: in a block%'),
    ('{"payload.a..b": 1}', '%{"$path": ["payload", "a.b"], "$eq": ...}.'),
    ('{"k": [{"exists": 1}]}', 'Write {"exists": true} or {"exists": false}.'),
    ('{"k": {"$exists": 1}}', 'Write {"$exists": true} or {"$exists": false}.'),
    ('{"k": [{"anything-but": {"equals-ignore-case": 1}}]}',
        'Write {"anything-but": {"equals-ignore-case": "a"}}%'),
    ('{"k": [{"anything-but": {"prefix": [["a"]]}}]}', 'Write {"anything-but": {"prefix": "a"}}%'),
    ('{"k": [{"prefix": 5}]}', 'Write {"prefix": "a"}%'),
    ('{"k": {"$prefix": 5}}', '%{"$like": "order-%'),
    ('{"k": {"prefix": "x"}}', '%{"key": [{"prefix": "a"}]}%')) as h (filter, hint);
-- The filter that the hint about $path suggests inside a block can match.
select ok(pgq.matches('{"payload": {"a": {"$path": ["b."], "$eq": "x"}}}', '{}',
    '{"a": {"b.": "x"}}'), '$path is relative to its block');

select lives_ok(format('select pgq.compile_filter(%L)', f.filter), f.filter || ' is accepted')
from (values
    ('{"k": {"$regex": "\\(?=a"}}'), ('{"k": {"$regex": "[(?=]"}}'), ('{"k": {"$regex": "(?:a)"}}'),
    ('{"payload": {"k": {"prefix": ["x"]}}}'), ('{"payload": {"k.prefix": "x"}}'),
    ('{"payload": {"prefix": "x"}}'), ('{"prefix": "x"}'), ('{"$or": [{"prefix": {"$eq": "x"}}]}'),
    ('{"k": [{"prefix": ""}]}'), ('{"k": [{"wildcard": "a*\\**"}]}')) as f (filter);

select * from finish();
rollback;
