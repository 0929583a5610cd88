-- The fast path of publish() writes the same rows as the trigger, in every slot.
set constraints all immediate;
select no_plan();
select t.at(now());
select pgq.create_queue('orders', retention => '1 h');

-- The log row and the ready row of a message, without the values that differ between messages.
create function pg_temp.trace(message bigint) returns text language sql as $$
    select string_agg(x, E'\n' order by x)
    from (
        select m.tableoid::regclass || (to_jsonb(m) - 'id' - 'publisher')::text
            || coalesce(m.publisher = current_user, true)
        from pgq.message m where m.id = message
        union all
        select (to_jsonb(r) - 'rank' - 'ids')::text || r.rank - message
            || (r.ids = int8multirange(int8range(message, message + 1)))
        from pgq.ready r where r.ids @> message
    ) t (x)
$$;
create function pg_temp.is_routed_alike(what text) returns setof text language plpgsql as $$
declare
    v_published bigint;
    v_inserted bigint;
begin
    perform pgq.publish('orders', '0');  -- fills the routing cache
    v_published := pgq.publish('orders', '{"n": 1}', '{"type": "x", "n": null}', 7, sender => 's',
                               recipient => 'r', reply_to => 'a', correlation_id => 'c');
    insert into pgq.message (topic, payload, headers, priority, sender, recipient, reply_to,
                             correlation_id)
    values ('orders', '{"n": 1}', '{"type": "x", "n": null}', 7, 's', 'r', 'a', 'c')
    returning id into v_inserted;
    return next is(pg_temp.trace(v_published), pg_temp.trace(v_inserted), what);
    return next isnt(pg_temp.trace(v_published), null, 'the compared rows exist');
end
$$;

select pg_temp.is_routed_alike('publish and INSERT write the same rows in the first slot');
call pgq.maintain();
select t.advance('61 min');
call pgq.maintain();
select pg_temp.is_routed_alike('publish and INSERT write the same rows in the second slot');
select is((select count(*) from pgq.message_1), 3::bigint, 'the messages are in the second slot');
select t.advance('61 min');
call pgq.maintain();
select pg_temp.is_routed_alike('publish and INSERT write the same rows in the third slot');
select ok((select count(*) >= 3 from pgq.message_2), 'the messages are in the third slot');
select is(t.take('orders', n => 100), '{"n": 1} {"n": 1} {"n": 1} {"n": 1} {"n": 1} {"n": 1} 0 0 0',
    'the messages of all slots are delivered once');

-- The fast path does not fire the trigger.
create table public.fired (at timestamptz default now());
create function public.fire() returns trigger language plpgsql as $$
begin insert into public.fired default values; return null; end $$;
create trigger fire after insert on pgq.message for each statement execute function public.fire();
select pgq.publish('orders', '1');
select is_empty('table public.fired',
    'a plain message is written into its slot without firing the trigger');
select pgq.publish('orders', '2', delay => '1 s');
select isnt_empty('table public.fired', 'a delayed message fires the trigger');
delete from public.fired;
select pgq.publish('orders', '3');
select is_empty('table public.fired',
    'a plain message after a delayed one does not fire the trigger');
select pgq.publish('orders', '4');
select pgq.publish('orders', '5', '{"route": "nowhere"}');
select pgq.publish('orders', '6', expires_in => '1 h');
select is((select count(*) from public.fired), 2::bigint,
    'a message with a route header and one with an expiry fire the trigger');
select throws_ok($$select pgq.publish('orders', '7', '{"a": {}}')$$, '22023', null,
    'publish refuses nested headers');
select throws_ok($$select pgq.publish('nobody', '7')$$, 'QU005', null,
    'publish refuses a topic that no queue receives');
-- Two publishers may store the same topic in the routing cache at the same time.
insert into pgq.route table pgq.route;
select pgq.publish('orders', '8');
select is((select count(*) from pgq.ready r where r.ids @> (select max(id) from pgq.message)),
    1::bigint, 'a message is routed once if the routing cache holds its topic twice');
select pgq.subscribe('copies', 'orders');
select pgq.publish('orders', '9');
select is(t.take('copies', n => 100), '9', 'a new subscription receives the next message');
-- A stale route, which a change of bindings could not delete: a publisher has stored it later.
create function pg_temp.publish_stale(payload jsonb) returns bigint language plpgsql as $$
begin
    delete from pgq.route;
    insert into pgq.route
    select 'orders', sum(s.version) - 1,
           array(select q.queue_id from pgq.queue q where q.name = 'orders'), '{}', '{}', '{}',
           null, null, (select q.lane_keys is not null from pgq.queue q where q.name = 'orders')
    from pgq.routing s;
    return pgq.publish('orders', payload);
end
$$;
select pg_temp.publish_stale('"stale"');
select is((select count(*) from pgq.message m where m.payload = '"stale"'), 1::bigint,
    'a message that finds a stale route is stored once');
select is(t.take('copies', n => 100), 'stale',
    'a message that finds a stale route is routed anew');
select is((select count(*) from pgq.route where topic = 'orders'), 2::bigint,
    'the present route is stored');
-- Lanes
select pgq.drop_queue('copies', force => true);
select pgq.alter_queue('orders', lane_keys => '{type,#n}');
select pg_temp.is_routed_alike('publish and INSERT write the same rows for a queue with lanes');
select is((select count(*) from pgq.ready where lane_id is not null and hash is not null),
    3::bigint, 'the messages are in lanes and have a hash');
delete from public.fired;
begin;
set local track_functions = 'pl';
insert into pgq.waiter (queue_id, waiter, until)
select queue_id, 'w', 'infinity' from pgq.queue;
select pgq.publish('orders', '10');
select is_empty('table public.fired', 'a message for a queue with lanes does not fire the trigger');
select is((select json_object_agg(funcname, calls)::text from pg_stat_xact_user_functions
           where funcname in ('_publish', '_wake')), '{ "_wake" : 1 }',
    'the fast path notifies waiting consumers once');
commit;
delete from pgq.waiter;
select pg_temp.publish_stale('"laned"');
select is((select count(*) from pgq.message m where m.payload = '"laned"'), 1::bigint,
    'a message for a queue with lanes that finds a stale route is stored once');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
