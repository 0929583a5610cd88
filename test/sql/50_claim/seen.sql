-- Consumer-side deduplication: a ring of the last messages of each handler.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');

select is(pgq.seen('billing', 1), false, 'a message is new');
select is(pgq.seen('billing', 1), true, 'and then known');
select is(pgq.seen('shipping', 1), false, 'another handler has not seen it');
select is(pgq.seen('billing', 2), false, 'another message is new');
select is((select count(*) from pgq.handled), 3::bigint, 'each is remembered once');

-- the ring
select pgq.seen('ring', i, 3) from generate_series(1, 3) i;
select is((select array_agg(pgq.seen('ring', i, 3) order by i) from generate_series(1, 3) i),
    '{t,t,t}', 'a ring of three remembers three');
select is(pgq.seen('ring', 4, 3), false, 'the fourth is new');
select is((select array_agg(message_id order by message_id) from pgq.handled
           where handler = 'ring'),
    '{2,3,4}'::bigint[], 'the oldest makes room for it');
select is(pgq.seen('ring', 2, 3), true, 'what is seen again keeps its place');
select is(pgq.seen('ring', 5, 3), false, 'the fifth is new');
select is((select array_agg(message_id order by message_id) from pgq.handled
           where handler = 'ring'),
    '{3,4,5}'::bigint[], 'and takes the place of the oldest, though it was asked for last');
select is(pgq.seen('ring', 1, 3), false, 'who was forgotten is new again');
select pgq.seen('ring', i, 3) from generate_series(100, 200) i;
select is((select count(*) from pgq.handled where handler = 'ring'), 3::bigint,
    'a ring never holds more than its size');
select is((select count(*) from pgq.handled where handler = 'billing'), 2::bigint,
    'and takes nothing from another');
select pgq.seen('one', i, 1) from generate_series(1, 3) i;
select is((select array_agg(message_id) from pgq.handled where handler = 'one'), '{3}'::bigint[],
    'a ring can be of one');
select pgq.seen('usual', i) from generate_series(1, 150) i;
select is((select array[count(*), min(message_id)] from pgq.handled where handler = 'usual'),
    '{100,51}'::bigint[], 'unless told otherwise it remembers a hundred');
select is(pgq.seen('usual', 151, 10), false, 'a ring can become smaller');
select is((select count(*) from pgq.handled where handler = 'usual'), 10::bigint, 'at once');
select is(pgq.seen('usual', 152, 1000), false, 'or larger');
select is((select count(*) from pgq.handled where handler = 'usual'), 11::bigint, 'and fills up');
select is(pgq.seen('huge', 1, 2147483647), false, 'as large as anybody could want');

-- it is cheap: nothing but what goes is touched
select is((select count(*) from pgq.handled where handler = 'usual' and xmax <> '0'), 0::bigint,
    'what stays in the ring is not locked or written');

-- in the transaction of the work
savepoint work;
select is(pgq.seen('billing', 3), false, 'a message is handled');
rollback to work;
select is(pgq.seen('billing', 3), false, 'what was rolled back was not seen');

-- arguments
select throws_ok(format('select pgq.seen(%s)', x), '22023', null, 'refused: ' || x)
from unnest(array['null, 1', $$'', 1$$, $$'h', null$$, $$'h', 1, 0$$, $$'h', 1, -1$$,
    $$'h', 1, null$$]) x;
select isnt(t.hint_of('select pgq.seen(null, 1)'), '', 'there is a hint');

-- upkeep forgets what is a week old
select t.advance('8 days');
select pgq.seen('fresh', 1);
call pgq.maintain();
select is((select array_agg(handler) from pgq.handled), '{fresh}'::text[],
    'what was seen more than a week ago is swept');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
