-- Every role can write settings, so only speed may depend on them.
select no_plan();
select t.at(now());
select pgq.create_queue('one'), pgq.create_queue('two');
create function t.setting(queue text) returns text language sql stable return (
    select 'pgq.low_' || q.queue_id from pgq.queue q where q.name = queue);
create function t.publish_three(queue text) returns void language sql begin atomic
    select pgq.publish(queue, to_jsonb(i)) from generate_series(1, 3) i;
end;

-- the low watermark of a session
select t.publish_three('one');
select is(t.take('one'), '1', 'a claim takes the first message');
select matches(current_setting(t.setting('one')), '^[0-9a-f]{32}#\(',
    'the claim stores a low watermark in a setting');
select current_setting(t.setting('one')) as good \gset
select is(t.take('one', n => 5), '2 3', 'the next claim continues from the low watermark');

-- forged watermarks: no row before the highest rank can be claimed
select format('(9223372036854775807,,,,%s,,1,%s,%s,%s,,,%s,f)', pg_current_snapshot(),
              tick, tick, tick, tick) as forged
from (select floor(date_part('epoch', pgq.now()) * pgq._limit('ticks'))::bigint as tick) x \gset
create temp table forgery (value text);
insert into forgery values (''), ('x'), ('{1,2,NULL}'), ('(1,2,3)'),
    (repeat('0', 32) || '#(,,,,,,,,,,,,,)'),
    (:'forged'), (md5(:'forged') || '#' || :'forged'), (repeat('f', 100000));
create function t.try(value text) returns text language plpgsql as $$
begin
    perform t.publish_three('one'), t.publish_three('two');
    perform set_config(t.setting('one'), value, false), set_config(t.setting('two'), value, false);
    return concat_ws(' ', t.take('one', n => 2), t.take('one', n => 5), t.take('two', n => 5));
end $$;
select is(t.try(value), '1 2 3 1 2 3', format('a setting of %s is ignored', left(value, 40)))
from forgery;

-- genuine watermarks of another queue, or of an earlier claim
select t.publish_three('one');
select is(t.take('one'), '1', 'a claim takes the first message');
select set_config(t.setting('two'), current_setting(t.setting('one')), false) is not null;
select t.publish_three('two');
select is(t.take('two', n => 5), '1 2 3', 'a watermark of another queue is ignored');
select set_config(t.setting('one'), :'good', false) is not null;
select is(t.take('one', n => 5), '2 3', 'an old watermark hides no message');

-- settings of PostgreSQL
set array_nulls = off;
select is(t.take('one', n => 5), null, 'a claim from an empty queue works without array_nulls');
select t.publish_three('one');
select is(t.take('one', n => 5), '1 2 3', 'a claim from a full queue works without array_nulls');
reset array_nulls;
set datestyle = 'SQL, DMY';
set intervalstyle = 'iso_8601';
set timezone = 'Asia/Kathmandu';
select t.publish_three('one');
select is(t.take('one', n => 1), '1',
    'a claim works with another date style and another time zone');
set datestyle = 'Postgres, MDY';
select is(t.take('one', n => 1), '2', 'a claim works after the date style has changed');
reset datestyle;
reset intervalstyle;
reset timezone;

-- a claim that is rolled back
begin;
select is(t.take('one', n => 1), '3', 'a claim takes the last message');
select is(t.take('one', n => 1), null, 'nothing is left');
rollback;
select is(t.take('one', n => 1), '3', 'a message of a rolled-back claim is found again');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
