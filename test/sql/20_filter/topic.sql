-- Topic patterns: * is one word, # is zero or more words.
begin;
select no_plan();

create temp table example (pattern text, topic text, expected boolean);
insert into example values
    ('orders.*', 'orders.created', true), ('orders.*', 'orders', false),
    ('orders.*', 'orders.a.b', false),
    ('orders.#', 'orders', true), ('orders.#', 'orders.a', true), ('orders.#', 'orders.a.b', true),
    ('orders.#', 'order', false), ('orders.#', 'ordersx', false),
    ('#', 'a', true), ('#', 'a.b.c', true),
    ('#.error', 'error', true), ('#.error', 'a.b.error', true), ('#.error', 'errors', false),
    ('#.error', 'xerror', false),
    ('a.#.b', 'a.b', true), ('a.#.b', 'a.x.b', true), ('a.#.b', 'a.x.y.b', true),
    ('a.#.b', 'a.x', false), ('a.#.b', 'axb', false),
    ('a.*.#', 'a.b', true), ('a.*.#', 'a.b.c', true), ('a.*.#', 'a', false),
    ('a.#.b.c', 'a.b.c', true), ('a.#.b.c', 'a.x.b.c', true), ('a.#.b.c', 'a.b.x.c', false),
    ('a.#.*', 'a.b', true), ('a.#.*', 'a.b.c', true), ('a.#.*', 'a', false),
    ('a+b.*', 'a+b.c', true), ('a+b.*', 'aab.c', false),
    ('#.#', 'a', true), ('a.#.#', 'a', true), ('#.a.#', 'a', true), ('#.a.#', 'b.a.c', true),
    ('#.a.#', 'b', false), ('*.*', 'a.b', true), ('*.*', 'a', false), ('*', 'a', true),
    ('*', 'a.b', false), ('a', 'a', true), ('a', 'A', false), ('a', 'a.b', false),
    ('[a].(b)', '[a].(b)', true), ('a.b', 'axb', false);
select is(pgq.matches_topic(e.pattern, e.topic), e.expected,
    format('%s %s %s', e.pattern, case when e.expected then 'matches' else 'does not match' end,
        e.topic))
from example as e;
select is_empty($$
    select e.pattern, e.topic from example as e
    where pgq.matches(jsonb_build_object('msg.topic', jsonb_build_object('$topic', e.pattern)),
        '{}', topic => e.topic) <> e.expected
$$, 'the operator $topic matches the same topics as matches_topic');

select throws_ok(format('select pgq.matches_topic(%L, %L)', p.pattern, 'a'), 'QU004', p.message,
    format('the pattern %L is refused', p.pattern))
from (values
    ('ord*', 'invalid filter: a wildcard must be a whole word'),
    ('a.#b', 'invalid filter: a wildcard must be a whole word'),
    ('**', 'invalid filter: a wildcard must be a whole word'),
    ('a..b', 'invalid filter: the topic pattern has an empty word'),
    ('.a', 'invalid filter: the topic pattern has an empty word'),
    ('a.', 'invalid filter: the topic pattern has an empty word'),
    ('', 'invalid filter: the topic pattern is empty')) as p (pattern, message);
select lives_ok($$select pgq._topic_regex(repeat('a', 1024))$$,
    'a topic pattern may have 1024 characters');
select throws_ok($$select pgq._topic_regex(repeat('a', 1025))$$, 'QU004', null,
    'a topic pattern with 1025 characters is refused');
select is(pgq.matches_topic(null, 'a'), null, 'matches_topic with a null pattern returns null');

select * from finish();
rollback;
