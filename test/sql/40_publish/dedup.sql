-- A second message of a topic with the same dedup key is dropped within the window.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('orders', dedup_window => '5 min', lease => '1 day');
select pgq.create_queue('other', dedup_window => '5 min', lease => '1 day');

-- publish
select pgq.publish('orders', '"first"', dedup_key => 'k') as first \gset
select is(pgq.publish('orders', '"second"', dedup_key => 'k'), :first::bigint,
    'a second publish with the same dedup key returns the first id');
select is(t.take('orders', n => 10), 'first', 'a duplicate is not delivered');
select is((select count(*) from pgq.message), 1::bigint, 'a duplicate is not stored');
select is(pgq.publish('orders', '"third"', dedup_key => 'k'), :first::bigint,
    'a dedup key is still remembered after its message was delivered');
select isnt(pgq.publish('other', '"o"', dedup_key => 'k'), :first::bigint,
    'the same key in another topic is not a duplicate');
select isnt(pgq.publish('orders', '"l"', dedup_key => 'l'), :first::bigint,
    'a message with another key is not a duplicate');
select isnt(pgq.publish('orders', '"n"'), pgq.publish('orders', '"n"'),
    'messages without a key are never duplicates');
select is(t.take('orders', n => 10), 'l n n',
    'messages with another key or without a key are delivered');
select t.advance('4 min 59 s');
select is(pgq.publish('orders', '"late"', dedup_key => 'k'), :first::bigint,
    'a dedup key is remembered until its window ends');
select t.advance('2 s');
select pgq.publish('orders', '"after"', dedup_key => 'k') as next \gset
select isnt(:next::bigint, :first::bigint,
    'a dedup key can be used for a new message after its window');
select is(t.take('orders', n => 10), 'after',
    'a message that is published after the window is delivered');
select is(pgq.publish('orders', '"again"', dedup_key => 'k'), :next::bigint,
    'the new message starts a new window');

-- publish_batch
create temp table batch as
select pgq.publish_batch('orders', array['"a"', '"b"', '"c"', '"d"', '"e"']::jsonb[],
    dedup_keys => array['x', 'y', 'x', null, 'k']) as id;
select is((select count(*) from batch), 5::bigint,
    'a batch with keys returns an id for each payload');
select is((select count(distinct id) from batch), 4::bigint,
    'a duplicate within a batch gets the id of the first message');
select is((select count(*) from batch where id = :next), 1::bigint,
    'a duplicate of an earlier message gets the id of that message');
select is(t.take('orders', n => 10), 'a b d', 'only the new messages of a batch are delivered');

-- INSERT
insert into pgq.message (topic, payload, dedup_key) values ('orders', '"i"', 'i');
insert into pgq.message (topic, payload, dedup_key) values ('orders', '"i again"', 'i');
select is(t.take('orders', n => 10), 'i', 'a second INSERT with the same key is not delivered');
insert into pgq.message (topic, payload, dedup_key) values
    ('orders', '"p"', 'p'), ('orders', '"q"', 'q'), ('orders', '"p again"', 'p'),
    ('orders', '"i again"', 'i'), ('other', '"other p"', 'p'), ('orders', '"no key"', null);
select is(t.take('orders', n => 10), 'p q no key',
    'an INSERT of many rows delivers only the first row of each key');
select is(t.take('other', n => 10), 'o other p',
    'an INSERT of many rows compares keys only within a topic');
select is(pgq.publish('orders', '"p"', dedup_key => 'p'),
    (select id from pgq.message where payload = '"p"'),
    'publish recognizes a key that an INSERT has used');
insert into pgq.message (topic, payload, dedup_key) values ('orders', '"k again"', 'k');
select is(t.take('orders', n => 10), null, 'an INSERT recognizes a key that publish has used');
select t.advance('6 min');
insert into pgq.message (topic, payload, dedup_key) values
    ('orders', '"i new"', 'i'), ('orders', '"p new"', 'p');
select is(t.take('orders', n => 10), 'i new p new',
    'dedup keys can be used again by INSERT after their window');

-- policies
select pgq.alter_queue('orders', dedup_window => '0');
select isnt(pgq.publish('orders', '1', dedup_key => 'z'),
    pgq.publish('orders', '2', dedup_key => 'z'), 'a window of zero turns deduplication off');
select pgq.create_queue('patient', dedup_window => '1 h', lease => '1 day');
insert into pgq.binding (queue_id, pattern)
select queue_id, 'orders' from pgq.queue where name = 'patient';
select pgq._rerouted();
select pgq.publish('orders', '1', dedup_key => 'w') as first \gset
select t.advance('59 min');
select t.take('patient', n => 10);
select t.take('orders', n => 10);
select isnt(pgq.publish('orders', '2', dedup_key => 'w'), :first::bigint,
    'a message that is a duplicate for only one of its queues is published');
select is(t.take('orders', n => 10), '2',
    'a queue without a window gets a message whose key was used before');
select is(t.take('patient', n => 10), null,
    'a queue with a long window does not get a message whose key was used before');
insert into pgq.message (topic, payload, dedup_key) values
    ('orders', '"3"', 'w'), ('orders', '"4"', 'w'), ('orders', '"5"', 'v');
select is(t.take('orders', n => 10), '3 4 5', 'a queue without a window gets all inserted rows');
select is(t.take('patient', n => 10), '5',
    'a queue with a long window gets only the inserted row with a new key');

-- The window of one queue does not affect another queue.
select pgq.create_queue('theirs', dedup_window => '1 s', lease => '1 day');
select pgq.create_queue('mine', dedup_window => '10 years', lease => '1 day');
select pgq.subscribe('mine', 'theirs');
select pgq.publish('theirs', '"a"', dedup_key => 'k');
select t.advance('2 s');
select pgq.publish('theirs', '"b"', dedup_key => 'k');
select is(t.take('theirs', n => 10), 'a b',
    'the long window of one queue does not drop messages of another queue');
select is(t.take('mine', n => 10), 'a', 'a queue with a long window drops its own duplicates');
select is(pgq.publish('theirs', '"c"', dedup_key => 'k'),
    (select id from pgq.message where topic = 'theirs' and payload = '"b"'),
    'publish returns the last published id when all queues drop the new message');

-- Dropping a queue deletes its dedup keys.
select pgq.create_queue('short', dedup_window => '1 day');
select pgq.publish('short', '"old"', dedup_key => 'k') as first \gset
select pgq.drop_queue('short', force => true);
select is_empty($$select from pgq.dedup where topic = 'short'$$, 'a dropped queue leaves no keys');
select pgq.create_queue('short', dedup_window => '1 day');
select isnt(pgq.publish('short', '"new"', dedup_key => 'k'), :first::bigint,
    'a new queue of the same name does not remember the keys of the dropped one');
select is(t.take('short'), 'new',
    'a new queue gets a message whose key the dropped queue has used');

-- An archive uses its own window.
select pgq.create_queue('kept', mode => 'archive', dedup_window => '0');
select pgq.create_queue('work', dedup_window => '1 h', lease => '1 day');
select pgq.subscribe('kept', 'work');
select pgq.publish_batch('work', '{1,2}', dedup_keys => '{k,k}');
select is(t.take('work', n => 10), '1',
    'a queue with a window gets one of two messages with the same key');
select is((select count(*) from pgq.message where topic = 'work'), 2::bigint,
    'an archive without a window keeps both messages with the same key');
-- Publishing works with a stored window that is out of range.
update pgq.queue set dedup_window = '1000000 years' where name = 'work';
update pgq.queue set dedup_window = '-1000000 years 370000000 days' where name = 'kept';
select pgq._rerouted();
select lives_ok($$select pgq.publish('work', '3', dedup_key => 'n')$$,
    'publishing works with a stored window that is out of range');

select throws_ok($$select pgq.publish('nobody', '1', dedup_key => 'w')$$, 'QU005', null,
    'publishing with a key to a topic that no queue receives is an error');
select is_empty($$select from pgq.dedup where topic = 'nobody'$$,
    'a refused message leaves no dedup key');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
