-- A second message of a topic with the same dedup key is dropped within the window.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('orders', dedup_window => '5 min', lease => '1 day');
select pgq.create_queue('other', dedup_window => '5 min', lease => '1 day');

-- publish
select pgq.publish('orders', '"first"', dedup_key => 'k') as first \gset
select is(pgq.publish('orders', '"second"', dedup_key => 'k'), :first::bigint,
    'a second publish returns the first id');
select is(t.take('orders', n => 10), 'first', 'and delivers nothing');
select is((select count(*) from pgq.message), 1::bigint, 'and stores nothing');
select is(pgq.publish('orders', '"third"', dedup_key => 'k'), :first::bigint,
    'also after the first was delivered');
select isnt(pgq.publish('other', '"o"', dedup_key => 'k'), :first::bigint,
    'another topic has its own keys');
select isnt(pgq.publish('orders', '"l"', dedup_key => 'l'), :first::bigint,
    'another key is another message');
select isnt(pgq.publish('orders', '"n"'), pgq.publish('orders', '"n"'),
    'messages without a key are never duplicates');
select is(t.take('orders', n => 10), 'l n n', 'they are delivered');
select t.advance('4 min 59 s');
select is(pgq.publish('orders', '"late"', dedup_key => 'k'), :first::bigint,
    'within the window it is a duplicate');
select t.advance('2 s');
select pgq.publish('orders', '"after"', dedup_key => 'k') as next \gset
select isnt(:next::bigint, :first::bigint, 'after the window it is a new message');
select is(t.take('orders', n => 10), 'after', 'and delivered');
select is(pgq.publish('orders', '"again"', dedup_key => 'k'), :next::bigint,
    'the window begins again with it');

-- publish_batch
create temp table batch as
select pgq.publish_batch('orders', array['"a"', '"b"', '"c"', '"d"', '"e"']::jsonb[],
    dedup_keys => array['x', 'y', 'x', null, 'k']) as id;
select is((select count(*) from batch), 5::bigint,
    'a batch with keys returns an id for each payload');
select is((select count(distinct id) from batch), 4::bigint,
    'with the first id for a duplicate within the batch');
select is((select count(*) from batch where id = :next), 1::bigint,
    'and the first id for a duplicate of before');
select is(t.take('orders', n => 10), 'a b d', 'only what is new is delivered');

-- INSERT
insert into pgq.message (topic, payload, dedup_key) values ('orders', '"i"', 'i');
insert into pgq.message (topic, payload, dedup_key) values ('orders', '"i again"', 'i');
select is(t.take('orders', n => 10), 'i', 'a second INSERT with the key is not delivered');
insert into pgq.message (topic, payload, dedup_key) values
    ('orders', '"p"', 'p'), ('orders', '"q"', 'q'), ('orders', '"p again"', 'p'),
    ('orders', '"i again"', 'i'), ('other', '"other p"', 'p'), ('orders', '"no key"', null);
select is(t.take('orders', n => 10), 'p q no key',
    'of many rows only the first with a key is delivered');
select is(t.take('other', n => 10), 'o other p', 'each topic by itself');
select is(pgq.publish('orders', '"p"', dedup_key => 'p'),
    (select id from pgq.message where payload = '"p"'), 'publish knows the key of an INSERT');
insert into pgq.message (topic, payload, dedup_key) values ('orders', '"k again"', 'k');
select is(t.take('orders', n => 10), null, 'an INSERT knows the key of a publish');
select t.advance('6 min');
insert into pgq.message (topic, payload, dedup_key) values
    ('orders', '"i new"', 'i'), ('orders', '"p new"', 'p');
select is(t.take('orders', n => 10), 'i new p new', 'after the window the keys are free');

-- policies
select pgq.alter_queue('orders', dedup_window => '0');
select isnt(pgq.publish('orders', '1', dedup_key => 'z'),
    pgq.publish('orders', '2', dedup_key => 'z'), 'without a window there are no duplicates');
select pgq.create_queue('patient', dedup_window => '1 h', lease => '1 day');
insert into pgq.binding (queue_id, pattern)
select queue_id, 'orders' from pgq.queue where name = 'patient';
select pgq._rerouted();
select pgq.publish('orders', '1', dedup_key => 'w') as first \gset
select t.advance('59 min');
select t.take('patient', n => 10);
select t.take('orders', n => 10);
select isnt(pgq.publish('orders', '2', dedup_key => 'w'), :first::bigint,
    'a message that one of the queues still wants is published');
select is(t.take('orders', n => 10), '2', 'the queue without a window gets it');
select is(t.take('patient', n => 10), null, 'the one with a long window does not');
insert into pgq.message (topic, payload, dedup_key) values
    ('orders', '"3"', 'w'), ('orders', '"4"', 'w'), ('orders', '"5"', 'v');
select is(t.take('orders', n => 10), '3 4 5', 'by INSERT just as well');
select is(t.take('patient', n => 10), '5', 'each queue by its own window');

-- One queue's window is its own affair.
select pgq.create_queue('theirs', dedup_window => '1 s', lease => '1 day');
select pgq.create_queue('mine', dedup_window => '10 years', lease => '1 day');
select pgq.subscribe('mine', 'theirs');
select pgq.publish('theirs', '"a"', dedup_key => 'k');
select t.advance('2 s');
select pgq.publish('theirs', '"b"', dedup_key => 'k');
select is(t.take('theirs', n => 10), 'a b',
    'the long window of one queue suppresses nothing of another');
select is(t.take('mine', n => 10), 'a', 'it does what it says for its own');
select is(pgq.publish('theirs', '"c"', dedup_key => 'k'),
    (select id from pgq.message where topic = 'theirs' and payload = '"b"'),
    'what no queue wants is not published, and the last one that was is the answer');

-- Keys end with their queue.
select pgq.create_queue('short', dedup_window => '1 day');
select pgq.publish('short', '"old"', dedup_key => 'k') as first \gset
select pgq.drop_queue('short', force => true);
select is_empty($$select from pgq.dedup where topic = 'short'$$, 'a dropped queue leaves no keys');
select pgq.create_queue('short', dedup_window => '1 day');
select isnt(pgq.publish('short', '"new"', dedup_key => 'k'), :first::bigint,
    'a queue of the same name knows no key of the one before');
select is(t.take('short'), 'new', 'it gets the message');

-- An archive keeps what it wants to keep.
select pgq.create_queue('kept', mode => 'archive', dedup_window => '0');
select pgq.create_queue('work', dedup_window => '1 h', lease => '1 day');
select pgq.subscribe('kept', 'work');
select pgq.publish_batch('work', '{1,2}', dedup_keys => '{k,k}');
select is(t.take('work', n => 10), '1', 'the queue gets one of two');
select is((select count(*) from pgq.message where topic = 'work'), 2::bigint,
    'the archive without a window keeps both');
-- A stored window that is absurd stops no publisher.
update pgq.queue set dedup_window = '1000000 years' where name = 'work';
update pgq.queue set dedup_window = '-1000000 years 370000000 days' where name = 'kept';
select pgq._rerouted();
select lives_ok($$select pgq.publish('work', '3', dedup_key => 'n')$$,
    'a stored window that is absurd stops no publisher');

select throws_ok($$select pgq.publish('nobody', '1', dedup_key => 'w')$$, 'QU005', null,
    'a topic that nobody receives is an error with a key too');
select is_empty($$select from pgq.dedup where topic = 'nobody'$$, 'and no key is remembered');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
