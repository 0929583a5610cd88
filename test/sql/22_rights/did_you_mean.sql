-- Errors for a mistyped name suggest a similar name, but only of a queue that the caller has a
-- right to.
begin;
select no_plan();
create role typo_worker;
create role typo_stranger;
select pgq.create_queue('orders'), pgq.create_queue('payments'), pgq.create_queue('payment.eu');
select pgq.subscribe('audit', 'orders.created');
select pgq.grant_queue('orders', 'typo_worker', 'admin');
select pgq.grant_queue('audit', 'typo_worker', 'publish');

-- the owner
select is(split_part(t.hint_of(format(statement, typed)), '? ', 1),
    format('Did you mean "%s"', meant), format(statement, typed) || ' suggests ' || meant)
from (values ('order', 'orders'), ('ordres', 'orders'), ('Orders', 'orders'), ('oders', 'orders'),
             ('orderss', 'orders'), ('payment', 'payments'), ('paymentss', 'payments'),
             ('payment-eu', 'payment.eu')) t (typed, meant),
     (values ($$select pgq.claim('%s')$$), ($$select pgq.claim('%s', '{"a": 1}', n => 5)$$),
             ($$select pgq.hold('%s', 'k')$$), ($$select pgq.pause('%s')$$),
             ($$select pgq.peek('%s')$$),
             ($$select pgq.grant_queue('%s', 'typo_worker', 'admin')$$),
             ($$select pgq.drop_queue('%s')$$), ($$select pgq.publish('%s', '1')$$),
             ($$select pgq.publish('%s', '1', delay => '1 s')$$),
             ($$select pgq.publish_batch('%s', '{1,2}')$$),
             ($$select pgq.schedule('nightly', '%s', '1', every => '1 day')$$),
             ($$insert into pgq.message (topic, payload) values ('%s', '1')$$)) s (statement);
select is(left(t.hint_of($$select pgq.publish('orders.craeted', '1')$$), 30),
    'Did you mean "orders.created"?', 'a topic that a queue has subscribed to is suggested too');
select is(t.hint_of($$select pgq.claim('orders.craeted')$$),
    'Create it with pgq.create_queue(queue) or pgq.subscribe(queue, pattern).',
    'a claim from a mistyped topic gets no suggestion');
select is(t.hint_of(format('select pgq.claim(%L)', typed)),
    'Create it with pgq.create_queue(queue) or pgq.subscribe(queue, pattern).',
    'no queue is similar to ' || typed)
from unnest('{invoices,o,or,ord}'::text[] || repeat('orders', 40)) typed;
select is(t.hint_of($$select pgq.claim(null)$$),
    'Create it with pgq.create_queue(queue) or pgq.subscribe(queue, pattern).',
    'no queue is similar to null');

-- A role gets suggestions of its own queues only, whether or not the mistyped name exists.
select matches(t.answer('typo_worker', statement), '\| Did you mean "orders"\? If ',
    statement || ': a queue that the role has a right to is suggested')
from unnest(array[$$select pgq.claim('order')$$, $$select pgq.pause('ordres')$$,
                  $$select pgq.publish('order', '1')$$, $$select pgq.peek('orderz')$$,
                  $$insert into pgq.message (topic, payload) values ('ordres', '1')$$]) statement;
select matches(t.answer('typo_worker', $$select pgq.publish('orders.creatd', '1')$$),
    '\| Did you mean "orders.created"\?',
    'a topic that a queue of the role receives is suggested, too');
select doesnt_match(t.answer('typo_worker', statement), 'Did you mean',
    statement || ': a queue that the role has no right to is not suggested')
from unnest(array[$$select pgq.claim('payment')$$, $$select pgq.claim('payments')$$,
                  $$select pgq.publish('payment', '1')$$, $$select pgq.pause('payment-eu')$$,
                  $$insert into pgq.message (topic, payload) values ('payment', '1')$$]) statement;
select is(t.answer('typo_worker', $$select pgq.claim('payments')$$),
    replace(t.answer('typo_worker', $$select pgq.claim('paymentz')$$), 'paymentz', 'payments'),
    'a queue that the role has no right to is refused like one that does not exist');

-- A pending subscription passes the check of rights, but receives nothing yet.
select pgq.subscribe('orders', 'payment');
update pgq.binding set pending = true where pattern = 'payment';
select matches(t.answer('typo_worker', statement), '^QU005 .* \| Create one with ',
    statement || ': a topic with a pending subscription has no receiver yet')
from unnest(array[$$select pgq.publish('payment', '1')$$,
                  $$select pgq.publish('payment', '1', delay => '1 s')$$,
                  $$select pgq.publish('payment', '1', dedup_key => 'k')$$,
                  $$select pgq.schedule('s', 'payment', '1', every => '1 day')$$,
                  $$insert into pgq.message (topic, payload) values ('payment', '1')$$]) statement;
select * from finish();
rollback;
