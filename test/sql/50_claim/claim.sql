-- Claims: which messages, in which order, how many, for how long.
begin;
select no_plan();
select t.at(now());

-- order and number
select pgq.create_queue('orders', lease => '30 s', set_size => 4, backoff => '1 s');
insert into pgq.message (topic, payload, priority)
select 'orders', to_jsonb(c), p
from (values ('e', 0), ('a', 5), ('f', 0), ('b', 5), ('g', 0), ('c', 5), ('h', 0), ('i', 0),
             ('d', 1), ('j', 0)) x (c, p);
create temp table got as select * from pgq.claim('orders', n => 2);
select is((select string_agg(payload #>> '{}', ' ') from got), 'a b',
    'a claim takes the highest priority first');
select is((select count(distinct lease_id) from got), 1::bigint,
    'all messages of a claim share a token');
select is((select array_agg(distinct attempt) from got), '{1}'::int[],
    'a first delivery has attempt 1');
select is((select max(lease_until) from got), pgq.now() + interval '30 s',
    'a claim holds its messages for the lease duration of the queue');
select is(t.take('orders', n => 4), 'c d e f', 'the next claim takes the rest of a set');
select is(t.take('orders'), 'g', 'a claim takes one message by default');
select is(t.take('orders', n => 1000000), 'h i j',
    'a claim of more messages than are ready takes all of them');
select is(t.take('orders', n => 5), null, 'a claim from an empty queue returns nothing');
select is((select count(*) from pgq.ready), 0::bigint, 'nothing is ready');
select is((select sum(size) from pgq.lease), 10::bigint, 'everything is leased');

-- retries come first within their priority
select max(lease_id) as lease from got \gset
select pgq.nack(:lease, delay => '0');
insert into pgq.message (topic, payload, priority) values
    ('orders', '"x"', 5), ('orders', '"y"', 6), ('orders', '"z"', 0);
select is(t.take('orders', n => 10), 'y a b x z',
    'redeliveries precede first deliveries of the same priority, not of a higher one');
select is((select array_agg(distinct attempt order by attempt) from pgq.lease
           where lease_id = (select max(lease_id) from pgq.lease)),
    '{1,2}'::int[], 'each message of a claim has its own attempt');
select is((select count(distinct lease_id) from pgq.lease where attempt = 2), 1::bigint,
    'first and second attempts share one lease');

-- arguments
select throws_ok(format('select pgq.claim(%s)', x), code, null, 'a claim is refused: ' || why)
from (values
    ($$'nowhere'$$, 'QU001', 'no such queue'), ('null', 'QU001', 'no queue'),
    ($$'orders', n => 0$$, '22023', 'n of 0'), ($$'orders', n => -1$$, '22023', 'a negative n'),
    ($$'orders', n => null$$, '22023', 'n of null'),
    ($$'orders', n => 1000001$$, '22023', 'more than a million'),
    ($$'orders', lease => '0'$$, '22023', 'a lease duration of 0'),
    ($$'orders', lease => '-1 s'$$, '22023', 'a negative lease duration'),
    ($$'orders', '[]'$$, 'QU004', 'a filter that is not an object'),
    ($$'orders', '{"a": {"$what": 1}}'$$, 'QU004', 'an unknown operator')) r (x, code, why);
select isnt(t.hint_of(format('select pgq.claim(%s)', x)), '', 'the error has a hint: ' || x)
from unnest(array[$$'nowhere'$$, $$'orders', n => 0$$, $$'orders', lease => '0'$$]) x;
select is((select sum(size) from pgq.lease), 13::bigint, 'refused claims take nothing');
select pgq.drop_queue('orders', force => true);

-- leases
select pgq.create_queue('work', lease => '10 s', max_attempts => 3);
select pgq.publish('work', '"a"');
select max(lease_id) as lease from pgq.claim('work', lease => '1 min') \gset
select is((select until from pgq.lease), pgq.now() + interval '1 min',
    'a claim can set its own lease duration');
select t.advance('59 s');
select is(t.take('work'), null, 'a leased message is not delivered again');
select t.advance('2 s');
select is(t.take('work'), 'a', 'a message whose lease has expired is delivered again');
select is((select attempt from pgq.lease), 2, 'the expired lease counts as an attempt');
select throws_ok(format('select pgq.ack(%s)', :lease), 'QU003', null,
    'the first consumer cannot acknowledge the message any more');
select is((select string_agg(event, ' ') from pgq.journal where lease_id = :lease), 'timeout',
    'the audit log records the timeout');
select pgq.publish('work', '"b"');
select t.advance('11 s');
select is(t.take('work', n => 5), 'a',
    'a message that timed out is redelivered before others, alone');
select is(t.take('work', n => 5), 'b', 'the next claim takes the other message');
select t.advance('11 s');
select is(t.take('work', n => 5), 'b', 'a message is not delivered after its last attempt');
select is((select array[reason, attempts::text] from pgq.dead_letter), '{timeout,3}'::text[],
    'the message is a dead letter with reason timeout and three attempts');
select pgq.drop_queue('work', force => true);

-- the lease of a claim expires after some of its messages were acknowledged
select pgq.create_queue('work', lease => '10 s', max_attempts => 2);
select count(*) from pgq.publish_batch('work', array['"a"', '"b"', '"c"', '"d"']::jsonb[]);
select max(lease_id) as lease, array_agg(id) filter (where payload in ('"b"', '"d"')) as some
from pgq.claim('work', n => 4) \gset
select pgq.ack(:lease, :'some');
select t.advance('11 s');
select is(t.take('work', n => 10), 'a',
    'a message that was not acknowledged is redelivered, alone');
select is(t.take('work', n => 10), 'c',
    'the next claim takes the other message that was not acknowledged');
select is(t.take('work', n => 10), null, 'acknowledged messages are not redelivered');
select pgq.drop_queue('work', force => true);

-- named claims
select pgq.create_queue('work', lease => '10 s');
insert into pgq.message (topic, payload) select 'work', to_jsonb(i) from generate_series(1, 6) i;
select is(t.take('work', n => 2, key => 'task 1'), '1 2', 'a claim can have a name');
select is(t.take('work', n => 2, key => 'task 2'), '3 4',
    'a claim with another name takes other messages');
select is(t.take('work', n => 2, key => 'task 1'), '1 2',
    'a claim with the same name returns the same messages');
select is(t.take('work', '{"a": 1}', 5, '1 h', 'task 1'), '1 2',
    'a repeated named claim ignores its filter and its n');
select is((select until from pgq.lease where key = 'task 1' limit 1), pgq.now() + interval '1 h',
    'a repeated named claim gets the lease duration that it asks for');
select lease_id as lease, ids from pgq.lease where key = 'task 1' \gset
select is((select max(lease_id) from pgq.claim('work', key => 'task 1')), :lease::bigint,
    'a repeated named claim returns the same lease id');
select is((select max(attempt) from pgq.lease), 1,
    'a repeated named claim does not count as an attempt');
select is(pgq.ack(:lease, array[lower(:'ids'::int8multirange)]), 1,
    'one message of a named claim is acknowledged');
select is(t.take('work', n => 2, key => 'task 1'), '2', 'the named claim then returns the rest');
select t.advance('11 s');
select is(t.take('work', n => 9, key => 'task 2'), '3 4',
    'a named claim returns its messages after its lease expired, unless others took them');
select pgq.pause('work');
select is(t.take('work', n => 9, key => 'task 2'), '3 4',
    'a named claim returns its messages while the queue is paused');
select pgq.resume('work');
select pgq.ack(:lease);
select is(t.take('work', n => 1, key => 'task 1'), '5',
    'a named claim takes new messages after all earlier ones are acknowledged');
select pgq.create_queue('elsewhere');
select is(t.take('elsewhere', key => 'task 2'), null, 'each queue has its own names of claims');
select pgq.drop_queue('work', force => true);

-- expired messages
select pgq.create_queue('news', lease => '1 h');
select pgq.create_queue('gossip', lease => '1 h', on_expiry => 'discard');
select pgq.publish(q, to_jsonb(p), expires_in => e)
from unnest('{news,gossip}'::text[]) q,
     (values ('a', interval '10 s'), ('b', null), ('c', '20 s')) x (p, e);
select t.advance('15 s');
select is(t.peek('news'), 'b c', 'peek does not show an expired message');
select is(t.take('news', n => 5), 'b c', 'a claim does not deliver an expired message');
select is(t.held('news', 'dead'), 'a', 'an expired message is a dead letter');
select is((select array[reason, attempts::text, error] from pgq.dead_letter),
    '{expired,0,null}'::text[], 'the dead letter has reason expired and no attempts');
select is(t.take('gossip', '{"$not": {"x": 1}}', n => 5), 'b c',
    'a claim with a filter does not deliver expired messages');
select is(t.held('gossip', 'dead'), null, 'a queue may discard expired messages');
select is((select count(*) from pgq.journal where event = 'expire'), 2::bigint,
    'the audit log records the expiry in both queues');
select count(*) from pgq.publish_batch('news', array_fill('"old"'::jsonb, array[300]),
    expires_in => '1 s');
select pgq.publish('news', '"new"');
select t.advance('2 s');
select is(t.take('news'), 'new', 'a claim of one message skips 300 expired messages');
select t.advance('1 s');
select is(t.take('news'), null, 'the next claim finds nothing');
select is((select count(*) from pgq.dead_letter where payload = '"old"'), 300::bigint,
    'all expired messages are dead letters');
select count(*) from pgq.publish_batch('news', array['"p"', '"q"', '"r"']::jsonb[],
    expires_in => '5 s');
select is(t.take('news'), 'p', 'a claim takes one message of a set');
select is(t.take('news', '{"$not": {"x": 1}}'), 'q',
    'a claim with a filter takes another message of the set');
select t.advance('6 s');
select is(t.take('news'), null, 'the rest of the set still expires');
select pgq.publish('news', '"late"', expires_in => '5 s');
select max(lease_id) as lease from pgq.claim('news') \gset
select t.advance('6 s');
select is(pgq.ack(:lease), 1, 'a message that expires while it is leased can be acknowledged');
select pgq.publish('news', '"late"', expires_in => '5 s');
select max(lease_id) as lease from pgq.claim('news') \gset
select t.advance('6 s');
select pgq.nack(:lease, delay => '0');
select is(t.take('news'), null,
    'a message that expired while it was leased is not redelivered after a nack');
select is((select reason from pgq.dead_letter where payload = '"late"'), 'expired',
    'the message is a dead letter with reason expired');
select pgq.drop_queue('news', force => true), pgq.drop_queue('gossip', force => true);

-- delayed messages and expired leases, more of them than one claim handles
select pgq.create_queue('many', lease => '10 s', max_attempts => 9);
insert into pgq.message (topic, payload, deliver_at)
select 'many', to_jsonb(i), pgq.now() + i * interval '1 ms' from generate_series(1, 250) i;
select t.advance('1 s');
select is((select count(*) from pgq.claim('many', n => 100)), 100::bigint,
    'a claim makes due messages ready and takes them');
create temp table rounds (n bigint);
insert into rounds select count(*) from pgq.claim('many', n => 1000);
insert into rounds select count(*) from pgq.claim('many', n => 1000);
select is((select sum(n) from rounds), 150::numeric,
    'the next two claims take the other 150 messages');
select t.advance('11 s');
truncate rounds;
insert into rounds
select (select count(*) from pgq.claim('many', n => 1000 + i * 0)) from generate_series(1, 40) i;
select is((select sum(n) from rounds), 250::numeric,
    'the messages of all expired leases are redelivered');
select cmp_ok((select max(n) from rounds), '<=', 10::bigint,
    'they are redelivered in small sets, because any of them may crash its consumer');
select is((select array_agg(distinct attempt) from pgq.lease l join pgq.queue using (queue_id)
           where name = 'many'), '{2}'::int[],
    'each redelivery counts one more attempt');
select pgq.drop_queue('many', force => true);

-- a session that claims often
select pgq.create_queue('busy', lease => '1 h', set_size => 8);
insert into pgq.message (topic, payload) select 'busy', to_jsonb(i) from generate_series(1, 700) i;
create temp table seen (n serial, payload text);
do $$
begin
    for i in 1 .. 600 loop
        insert into seen (payload) select payload #>> '{}' from pgq.claim('busy');
    end loop;
end
$$;
select is((select array_agg(payload::int order by n) from seen),
    array(select generate_series(1, 600)), 'six hundred claims get six hundred messages in order');
select pgq.publish('busy', '"urgent"', priority => 1);
select pgq.publish('busy', '"low"', priority => -1);
select is(t.take('busy'), 'urgent', 'a message of higher priority is found after 600 claims');
select lease_id as lease from pgq.lease where ids @> (
    select id from pgq.message where topic = 'busy' and payload = '5') \gset
select pgq.nack(:lease, delay => '0');
select is(t.take('busy'), '5', 'a redelivery is found too');
select is((select count(*) from pgq.claim('busy', n => 1000)), 101::bigint,
    'one claim takes all the rest');
select is((select sum(size) from pgq.lease l join pgq.queue using (queue_id)
           where name = 'busy'), 702::bigint, 'no message is lost');

-- repeated named claims return their messages in the same order
select pgq.create_queue('named', lease => '1 h');
select pgq.publish('named', to_jsonb(i), delay => case when i in (2, 4) then interval '1 s' end)
from generate_series(1, 5) i;
select t.at(pgq.now() + interval '2 s');
select is(t.take('named', n => 5, key => 'k'), t.take('named', n => 5, key => 'k'),
    'a repeated named claim returns delayed messages in the same order');

-- rows of one message, and then large ones
select pgq.create_queue('mixed', lease => '1 h', set_size => 4);
select pgq.publish('mixed', to_jsonb(i)) from generate_series(1, 6) i;
select is(t.take('mixed', n => 2), '1 2', 'a claim takes two rows of one message each');
insert into pgq.message (topic, payload) select 'mixed', to_jsonb(i) from generate_series(7, 30) i;
select is(t.take('mixed', n => 3), '3 4 5', 'the next claim takes three such rows');
select is(t.take('mixed', n => 3), '6 7 8',
    'a claim takes the last such row and a part of a large one');
select is((select count(*) from pgq.ready r join pgq.queue q using (queue_id)
           where q.name = 'mixed'), 6::bigint, 'the claim divides only one large row');
select is(t.take('mixed', n => 6), '9 10 11 12 13 14', 'the next claim continues in order');
select is((select count(*) from pgq.claim('mixed', n => 100)), 16::bigint,
    'the last claim takes all the rest');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
