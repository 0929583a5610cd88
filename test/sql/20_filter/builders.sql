-- The builders: header_equals, header_in, header_not_equals, header_like, all_of, any_of.
begin;
select plan(41);

-- FactoryMethodValidation
select throws_ok($$select pgq.header_equals(null, 'a')$$, 'QU004',
    'invalid filter: the header key is missing', 'FactoryMethodValidation: a null key is refused');
select throws_ok($$select pgq.header_equals('', 'a')$$, 'QU004',
    'invalid filter: the header key is missing',
    'FactoryMethodValidation: an empty key is refused');
select throws_ok($$select pgq.header_equals('a; drop table x', 'a')$$, 'QU004', null,
    'FactoryMethodValidation: an invalid key is refused');
select throws_ok($$select pgq.header_equals('a', null)$$, 'QU004',
    'invalid filter: the value is missing', 'FactoryMethodValidation: a null value is refused');
select throws_ok($$select pgq.header_in('a', '{}')$$, 'QU004',
    'invalid filter: the list is empty', 'FactoryMethodValidation: an empty set is refused');
select throws_ok($$select pgq.all_of(pgq.header_equals('a', '1'))$$, 'QU004',
    'invalid filter: all_of takes two filters or more',
    'FactoryMethodValidation: all_of with one filter is refused');
select throws_ok($$select pgq.any_of(pgq.header_equals('a', '1'))$$, 'QU004',
    'invalid filter: any_of takes two filters or more',
    'FactoryMethodValidation: any_of with one filter is refused');
select throws_ok(format('select pgq.%s', call), 'QU004', null, call || ' is refused')
from unnest(array['header_in(null, ''{a}'')', 'header_in(''a'', null)',
    'header_in(''a'', ''{NULL}'')',
    'header_not_equals(''a'', null)', 'header_not_equals(null, ''a'')', 'header_like(''a'', null)',
    'header_like(''a.b'', ''x'')', 'header_like(''a'', ''x\'')', 'header_equals(''1a'', ''x'')',
    'header_equals(repeat(''a'', 129), ''x'')', 'all_of(null, ''{}'')', 'any_of(''{}'', null)'])
    as call;

-- SqlGenerationSimple
select results_eq(
    $$select path::text, operands from pgq.compile_filter(pgq.header_equals('type', 'paid'))$$,
    $$values ('exists (true?($."type" == "paid"))', '["paid"]'::jsonb)$$,
    'SqlGenerationSimple: header_equals compiles to an equality');
select results_eq(
    $$select path::text, operands from pgq.compile_filter(pgq.header_not_equals('type', 'paid'))$$,
    $$values ('exists (true?($."type".type() != "null" && !(exists (true?($."type" == "paid")))))',
        '["paid"]'::jsonb)$$,
    'SqlGenerationSimple: header_not_equals compiles to not null and not equal');
select results_eq(
    $$select path::text, operands from pgq.compile_filter(pgq.header_like('type', 'p%d'))$$,
    $$values ('exists (true?($."type" like_regex "^p.*d$" flag "s"))', '["p%d"]'::jsonb)$$,
    'SqlGenerationSimple: header_like compiles to an anchored pattern');
select results_eq(
    $$select path::text, operands from pgq.compile_filter(pgq.header_in('r', '{US,EU}'))$$,
    $$values ('exists (true?($."r" == "EU" || $."r" == "US"))', '["EU", "US"]'::jsonb)$$,
    'SqlGenerationSimple: header_in compiles to one equality per value');

-- SqlGenerationCompound
select is(c.operand_count, 2, 'SqlGenerationCompound: all_of has the operands of its parts')
from pgq.compile_filter(pgq.all_of(pgq.header_equals('a', '1'), pgq.header_equals('b', '2'))) as c;
select is(c.operands, '["1", "2"]', 'SqlGenerationCompound: any_of has the operands of its parts')
from pgq.compile_filter(pgq.any_of(pgq.header_equals('a', '1'), pgq.header_equals('b', '2'))) as c;
select is(c.operand_count, 3, 'SqlGenerationCompound: nested filters have all operands')
from pgq.compile_filter(pgq.all_of(pgq.header_equals('a', '1'), pgq.any_of(
    pgq.header_equals('b', '2'), pgq.header_like('c', '3%')))) as c;
select is(c.operand_count, 4, 'SqlGenerationCompound: all_of counts each value of header_in')
from pgq.compile_filter(pgq.all_of(pgq.header_equals('a', '1'),
    pgq.header_in('b', '{x,y,z}'))) as c;

-- EqualsAndHashCode
select is(pgq._filter_parse('{"a": 1, "bb": {"$in": ["x", "y"]}}'),
    pgq._filter_parse('{"bb": {"$in": ["y","x","x"]},   "a": 1.0}'),
    'EqualsAndHashCode: order, spacing and duplicates make no difference');
select isnt(pgq.header_equals('a', '1'), pgq.header_equals('a', '2'),
    'EqualsAndHashCode: different filters differ');

-- ValidHeaderKeyPatterns
select lives_ok(
    $$select pgq.header_equals(k, 'x')
      from unnest('{type,eventType,event_type,event-type,X123}'::text[]) k$$,
    'ValidHeaderKeyPatterns: letters, digits, underscores and hyphens are accepted');

-- The messages that each builder selects.
select is(array(select pgq.matches(f.filter, h.headers) from (values
        (1, '{}'::jsonb), (2, '{"k": null}'), (3, '{"k": "a"}'), (4, '{"k": "b"}')) h (n, headers)
        order by h.n), f.expected, f.why)
from (values
    (pgq.header_equals('k', 'a'), '{f,f,t,f}'::boolean[],
        'header_equals selects messages with the value'),
    (pgq.header_in('k', '{a,b}'), '{f,f,t,t}',
        'header_in selects messages with any of its values'),
    (pgq.header_not_equals('k', 'a'), '{f,f,f,t}',
        'header_not_equals excludes messages whose header is missing or null'),
    (pgq.header_not_equals('k', 'a', true), '{t,t,f,t}',
        'header_not_equals with include_missing selects missing and null headers, too'),
    (pgq.header_like('k', 'a%'), '{f,f,t,f}',
        'header_like selects messages that match the pattern'),
    (pgq.all_of(pgq.header_like('k', '%'), pgq.header_not_equals('k', 'b')), '{f,f,t,f}',
        'all_of selects messages that match all filters'),
    (pgq.any_of(pgq.header_equals('k', 'a'), pgq.header_equals('k', 'b')), '{f,f,t,t}',
        'any_of selects messages that match any filter')) as f (filter, expected, why);
select is(pgq.header_equals('payload', 'x'), '{"headers.payload": "x"}',
    'a header named payload is written as headers.payload');
select is(pgq.header_equals('type', 'x'), '{"type": "x"}',
    'any other header is written by its name');
select is(pgq.all_of(pgq.header_equals('a', '1'), '{}'), '{"$and": [{"a": "1"}, {}]}',
    'all_of writes $and');
select is(pgq.any_of(variadic array[pgq.header_equals('a', '1'), '{}']),
    '{"$or": [{"a": "1"}, {}]}',
    'any_of takes an array, too');

select * from finish();
rollback;
