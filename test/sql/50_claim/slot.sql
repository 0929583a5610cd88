-- A claim finds its messages in all slots of the log, and returns them in order.
begin;
select no_plan();
select t.at(now());

-- The slot of the log that has a message.
create function t.slot(id bigint) returns int language sql return (
    select m.era from pgq.message m where m.id = slot.id);

select pgq.create_queue('orders');
select pgq.publish('orders', '"a"');
select is(t.take('orders'), 'a', 'the first claim of a session finds its message');
select pgq.publish('orders', '"b"');
select is(t.take('orders'), 'b', 'a message in the slot of the current era is found');

select setval('pgq.era_number', pg_sequence_last_value('pgq.era_number') + 1);
select pgq.publish('orders', '"c"');
select is(t.take('orders'), 'c', 'a message in the slot of the next era is found');

select t.at(pgq.now() + interval '1 s');
select pgq.publish('orders', '"d"');
select is(t.take('orders'), 'd', 'a message is found a second later');

-- a set of which a part is in another slot
select count(*) from pgq.publish_batch('orders', '{"1","2"}');
select is(t.take('orders', n => 2), '1 2', 'a claim takes a row of two messages');
select max(id) as first from pgq.publish_batch('orders', '{"3","4"}') b (id) \gset
select t.damage(format('update pgq.message set era = (era + 1) %% 3 where id = %s', :first));
select is(t.take('orders', n => 2), '3 4',
    'a set whose messages are in two slots is delivered in order');
select count(*) from pgq.publish_batch('orders', '{"5","6"}');
select t.damage(format('update pgq.message set era = (era + 2) %% 3 where id > %s', :first));
select is(t.take('orders', n => 2), '5 6', 'a set in another slot is delivered in order');

-- a publisher that got its id before another publisher, but read the era number after it
select count(*) from pgq.publish_batch('orders', '{"7","8"}');
select is(t.take('orders', n => 2), '7 8', 'a claim takes another row of two messages');
select min(id) as first from pgq.publish_batch('orders', '{"9","10"}') b (id) \gset
select setval('pgq.era_number', pg_sequence_last_value('pgq.era_number') + 1);
select t.damage(format($$update pgq.message
    set era = pg_sequence_last_value('pgq.era_number') %% 3 where id = %s$$, :first));
select isnt(t.slot(:first), t.slot(:first + 1),
    'the first message is in the slot of the later era');
select is(t.take('orders', n => 2), '9 10', 'the first message is delivered first');

-- sets whose ids are far apart
select pgq.subscribe('some', 'all', '{"keep": "yes"}');
create function t.publish_some() returns bigint language sql begin atomic
    select count(*) from pgq.publish_batch(
        'all', array(select to_jsonb(i) from generate_series(1, 30) i),
        array(select jsonb_build_object('keep', case when i % 10 = 0 then 'yes' else 'no' end)
              from generate_series(1, 30) i));
end;
select t.publish_some();
select is(t.take('some', n => 3), '10 20 30', 'messages whose ids are far apart are found');
select t.publish_some();
select is(t.take('some', n => 3), '10 20 30', 'the next claim finds such messages too');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
