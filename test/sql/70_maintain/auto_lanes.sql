-- A queue that chooses its lane keys: by what filters test, one key in each call of maintain().
begin;
select plan(22);

select pgq.create_queue('auto', lane_keys => '{auto}');
select is((select (lane_keys, auto_lanes)::text from pgq.queue where name = 'auto'), '(,t)',
    'a queue that chooses has no lane keys at first');
select is(pgq.create_queue('auto', lane_keys => '{auto}'), false, 'it is what it was made as');
select throws_ok($$select pgq.create_queue('auto')$$, 'QU002', null, 'and nothing else');
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
select is(pg_temp.keys(), null, 'without filters it stays so');
select pg_temp.tested('{"type": {"$lt": 5}}');
call pgq.maintain();
select is(pg_temp.keys(), null, 'a filter that matches what it tests needs no lanes');

select cmp_ok(pg_temp.tested('{"msg.recipient": "r1400", "payload.n": {"$gt": 5}}'), '>=',
    1000::bigint, 'a filter that tests much and finds little');
select matches(pg_temp.explained('{"msg.recipient": "r1400"}', 'advice'), 'none: the queue makes',
    'is left to the queue');
call pgq.maintain();
select is(pg_temp.keys(), '{msg.recipient}'::text[],
    'makes a lane key of the field whose value it names');
select is((select array_agg(key || ': ' || reason) from pgq.lane_choice), array[
    'msg.recipient: filters on it tested 1500 messages for 1 matches'], 'and the queue knows why');
select matches(pg_temp.explained('{"msg.recipient": "r1400"}', 'lane choice'),
    '^msg.recipient added, because filters on it tested 1500 messages', 'and tells');
do $$ begin for i in 1 .. 4 loop call pgq.maintain(); end loop; end $$;
select is(pg_temp.keys(), '{#msg.recipient}'::text[], 'a field with many values is hashed');
update pgq.queue set unlaned_rows = false;  -- this transaction is in nobody's way
select is(pg_temp.tested('{"msg.recipient": "r77"}'), 1::bigint, 'then one message is tested');

select pg_temp.tested('{"payload.shop.country": 9}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country}'::text[], 'a second key');
select pg_temp.tested('{"same": "y"}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country,same}'::text[], 'a third');
do $$ begin for i in 1 .. 4 loop call pgq.maintain(); end loop; end $$;
select pg_temp.tested('{"same": "x", "payload.n": 0}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country}'::text[],
    'a key that has one value prunes nothing and is dropped');
select matches(pg_temp.explained('{"same": "x"}', 'lane choice'),
    'same dropped, because .* all messages have one value', 'and the queue tells why');
select pg_temp.tested('{"same": "z"}');
call pgq.maintain();
select is(pg_temp.keys(), '{#msg.recipient,payload.shop.country}'::text[], 'it is not tried again');
update pgq.lane_choice set chosen_at = now() - interval '2 days';
update pgq.filter_hit set used_at = now() - interval '2 days';
call pgq.maintain();
call pgq.maintain();
select is(pg_temp.keys(), null, 'keys that no filter tests for a day are dropped');
select is_empty('select * from pgq.check()', 'nothing is wrong after all of it');

select pgq.alter_queue('auto', lane_keys => '{type}');
select is((select (lane_keys, auto_lanes)::text from pgq.queue where name = 'auto'), '({type},f)',
    'who names keys chooses again');
select pgq.alter_queue('auto', lane_keys => '{auto}');
select is(pg_temp.keys(), '{type}'::text[], 'and can leave it to the queue with what it has');
select pgq.drop_queue('auto', force => true);
select is((select count(*) from pgq.lane_choice), 0::bigint, 'a dropped queue leaves no choice');
select * from finish();
rollback;
