-- Consumer-side deduplication: a ring of the last messages of each handler.
begin;
select no_plan();
select t.at('2030-01-01 00:00:00+00');

select is(pgq.seen('billing', 1), false, 'a message is new to a handler');
select is(pgq.seen('billing', 1), true, 'a message is known the second time');
select is(pgq.seen('shipping', 1), false, 'a message is new to another handler');
select is(pgq.seen('billing', 2), false, 'another message is new');
select is((select count(*) from pgq.handled), 3::bigint, 'each is remembered once');

-- the ring
select pgq.seen('ring', i, 3) from generate_series(1, 3) i;
select is((select array_agg(pgq.seen('ring', i, 3) order by i) from generate_series(1, 3) i),
    '{t,t,t}', 'a ring of three remembers three');
select is(pgq.seen('ring', 4, 3), false, 'a fourth message is new');
select is((select array_agg(message_id order by message_id) from pgq.handled
           where handler = 'ring'),
    '{2,3,4}'::bigint[], 'the fourth message replaces the oldest');
select is(pgq.seen('ring', 2, 3), true, 'a message in the ring is known');
select is(pgq.seen('ring', 5, 3), false, 'a fifth message is new');
select is((select array_agg(message_id order by message_id) from pgq.handled
           where handler = 'ring'),
    '{3,4,5}'::bigint[], 'the fifth message replaces the oldest, even if that was seen again');
select is(pgq.seen('ring', 1, 3), false, 'a message that left the ring is new again');
select pgq.seen('ring', i, 3) from generate_series(100, 200) i;
select is((select count(*) from pgq.handled where handler = 'ring'), 3::bigint,
    'a ring never holds more than its size');
select is((select count(*) from pgq.handled where handler = 'billing'), 2::bigint,
    'the ring of another handler is unchanged');
select pgq.seen('one', i, 1) from generate_series(1, 3) i;
select is((select array_agg(message_id) from pgq.handled where handler = 'one'), '{3}'::bigint[],
    'a ring can hold one message');
select pgq.seen('usual', i) from generate_series(1, 150) i;
select is((select array[count(*), min(message_id)] from pgq.handled where handler = 'usual'),
    '{100,51}'::bigint[], 'a ring holds 100 messages by default');
select is(pgq.seen('usual', 151, 10), false, 'a ring can become smaller');
select is((select count(*) from pgq.handled where handler = 'usual'), 10::bigint,
    'a smaller ring drops the oldest messages at once');
select is(pgq.seen('usual', 152, 1000), false, 'a ring can become larger');
select is((select count(*) from pgq.handled where handler = 'usual'), 11::bigint,
    'a larger ring keeps what it had');
select is(pgq.seen('huge', 1, 2147483647), false, 'a ring can be as large as an integer allows');

-- only rows that leave the ring are written
select is((select count(*) from pgq.handled where handler = 'usual' and xmax <> '0'), 0::bigint,
    'rows that stay in the ring are neither locked nor written');

-- in the transaction of the work
savepoint work;
select is(pgq.seen('billing', 3), false, 'a message is new in a transaction');
rollback to work;
select is(pgq.seen('billing', 3), false, 'the message is new again after a rollback');

-- arguments
select throws_ok(format('select pgq.seen(%s)', x), '22023', null, 'seen is refused: ' || x)
from unnest(array['null, 1', $$'', 1$$, $$'h', null$$, $$'h', 1, 0$$, $$'h', 1, -1$$,
    $$'h', 1, null$$]) x;
select isnt(t.hint_of('select pgq.seen(null, 1)'), '', 'the error has a hint');

-- maintenance removes rows that are older than a week
select t.advance('8 days');
select pgq.seen('fresh', 1);
call pgq.maintain();
select is((select array_agg(handler) from pgq.handled), '{fresh}'::text[],
    'maintenance removes messages that were seen more than a week ago');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
