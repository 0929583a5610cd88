-- A queue chooses its lane keys from the fields that filters test, one key per call of maintain().
begin;
select plan(22);

select pgq.create_queue('auto', lane_keys => '{auto}');
select is((select (lane_keys, auto_lanes)::text from pgq.queue where name = 'auto'), '(,t)',
    'a queue that chooses its lane keys has none at first');
select is(pgq.create_queue('auto', lane_keys => '{auto}'), false,
    'create_queue can be repeated with lane_keys {auto}');
select throws_ok($$select pgq.create_queue('auto')$$, 'QU002', null,
    'create_queue with other lane keys is an error');
insert into pgq.message (topic, payload, headers, recipient)
select 'auto', jsonb_build_object('n', i, 'shop', jsonb_build_object('country', i % 4)),
       jsonb_build_object('type', i % 5, 'same', 'x'), 'r' || i
from generate_series(1, 1500) i;
create function pg_temp.keys() returns text[] language sql
as $$select lane_keys from pgq.queue where name = 'auto'$$;
create function pg_temp.tested(filter jsonb) returns bigint language plpgsql as $$
declare
    v_before bigint := (select coalesce(sum(tested), 0) from pgq.filter_hit);
begin
    perform pgq.release(lease_id) from (
        select distinct lease_id from pgq.claim('auto', filter, 10)) c;
    return (select coalesce(sum(tested), 0) from pgq.filter_hit) - v_before;
end
$$;
create function pg_temp.explained(filter jsonb, item text) returns text language sql as $$
    select string_agg(e.value, '; ') from pgq.explain_filter('auto', filter) e where e.item = $2
$$;
call pgq.maintain();
select is(pg_temp.keys(), null, 'maintain() chooses no lane key without filters');
select pg_temp.tested('{"type": {"$lt": 5}}');
call pgq.maintain();
select is(pg_temp.keys(), null,
    'maintain() chooses no lane key for a filter that matches what it tests');

select cmp_ok(pg_temp.tested('{"msg.recipient": "r1400", "payload.n": {"$gt": 5}}'), '>=',
    1000::bigint, 'a filter without a lane key tests at least 1000 messages');
select matches(pg_temp.explained('{"msg.recipient": "r1400"}', 'advice'), 'none: the queue makes',
    'explain_filter advises nothing because the queue makes its lane keys');
call pgq.maintain();
select is(pg_temp.keys(), '{msg.recipient}'::text[],
    'maintain() makes a lane key of the field whose value the filter names');
select is((select array_agg(key || ': ' || reason) from pgq.lane_choice), array[
    'msg.recipient: filters on it tested 1500 messages for 1 matches'],
    'pgq.lane_choice stores the reason of the choice');
select matches(pg_temp.explained('{"msg.recipient": "r1400"}', 'lane choice'),
    '^msg.recipient added, because filters on it tested 1500 messages',
    'explain_filter shows the reason of the choice');
do $$ begin for i in 1 .. 4 loop call pgq.maintain(); end loop; end $$;
select is(pg_temp.keys(), '{#msg.recipient}'::text[],
    'a chosen lane key with many values becomes a hashed key');
update pgq.queue set unlaned_rows = false;  -- as maintain() would after this transaction
select is(pg_temp.tested('{"msg.recipient": "r77"}'), 1::bigint,
    'a filter with a lane key tests one message');

select pg_temp.tested('{"payload.shop.country": 9}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country}'::text[],
    'maintain() adds a second lane key');
select pg_temp.tested('{"same": "y"}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country,same}'::text[],
    'maintain() adds a third lane key');
do $$ begin for i in 1 .. 4 loop call pgq.maintain(); end loop; end $$;
select pg_temp.tested('{"same": "x", "payload.n": 0}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country}'::text[],
    'a lane key with only one value is dropped');
select matches(pg_temp.explained('{"same": "x"}', 'lane choice'),
    'same dropped, because .* all messages have one value',
    'explain_filter shows why a lane key was dropped');
select pg_temp.tested('{"same": "z"}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country}'::text[],
    'a lane key that was dropped is not chosen again');
update pgq.lane_choice set chosen_at = now() - interval '2 days';
update pgq.filter_hit set used_at = now() - interval '2 days';
call pgq.maintain();
call pgq.maintain();
select is(pg_temp.keys(), null, 'lane keys that no filter tests for a day are dropped');
select is_empty('select * from pgq.check()', 'nothing is broken');

select pgq.alter_queue('auto', lane_keys => '{type}');
select is((select (lane_keys, auto_lanes)::text from pgq.queue where name = 'auto'), '({type},f)',
    'alter_queue with named lane keys turns the automatic choice off');
select pgq.alter_queue('auto', lane_keys => '{auto}');
select is(pg_temp.keys(), '{type}'::text[],
    'the automatic choice starts with the lane keys that the queue has');
select pgq.drop_queue('auto', force => true);
select is((select count(*) from pgq.lane_choice), 0::bigint,
    'a dropped queue leaves no row in lane_choice');
select * from finish();
rollback;
