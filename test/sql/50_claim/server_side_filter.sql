-- The eleven integration tests of server-side filtering. Each description begins with the name.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('orders', lease => '1 h');

-- A publisher of business events, and an empty queue for each test.
create function pg_temp.publish_events() returns void language plpgsql as $$
begin
    perform pgq.drop_queue('orders', force => true);
    perform pgq.create_queue('orders', lease => '1 h');
    perform pgq.publish('orders', to_jsonb(e.name), e.headers)
    from (values
        ('eu order', '{"type": "order-created", "region": "EU", "priority": "HIGH"}'::jsonb),
        ('us order', '{"type": "order-created", "region": "US", "priority": "LOW"}'),
        ('us refund', '{"type": "order-refunded", "region": "US", "priority": "HIGH"}'),
        ('apac cancel', '{"type": "order-cancelled", "region": "APAC", "priority": "HIGH"}'),
        ('payment', '{"type": "payment-received", "region": "LATAM", "priority": "LOW"}'),
        ('bare', '{}')) e (name, headers);
end
$$;
create function pg_temp.outcome(filter jsonb) returns text[] language plpgsql as $$
declare
    v_mine text;
begin
    perform pg_temp.publish_events();
    v_mine := t.take('orders', filter, 100);
    return array[v_mine, t.take('orders', null, 100)];
end
$$;

select is(pg_temp.outcome(pgq.header_equals('type', 'order-created')),
    '{eu order us order,us refund apac cancel payment bare}'::text[],
    'testServerSideFilterEquals: a consumer gets only messages with the exact header value');
select is(pg_temp.outcome(pgq.header_in('region', '{US,EU,APAC}')),
    '{eu order us order us refund apac cancel,payment bare}'::text[],
    'testServerSideFilterIn: a consumer gets messages whose header is in the set');
select is(pg_temp.outcome(pgq.all_of(
        pgq.header_like('type', 'order-%'), pgq.header_equals('region', 'US'),
        pgq.header_equals('priority', 'HIGH'))),
    '{us refund,eu order us order apac cancel payment bare}'::text[],
    'testServerSideFilterAnd: a consumer gets messages that meet all conditions');
select is(pg_temp.outcome(pgq.header_not_equals('type', 'order-created')),
    '{us refund apac cancel payment,eu order us order bare}'::text[],
    'testServerSideFilterNotEquals: a consumer gets everything with another value of the header');
select is(pg_temp.outcome(pgq.any_of(
        pgq.header_equals('type', 'payment-received'), pgq.header_equals('region', 'EU'))),
    '{eu order payment,us order us refund apac cancel bare}'::text[],
    'testServerSideFilterOr: a consumer gets messages that meet any condition');
select is(pg_temp.outcome(pgq.header_like('type', 'order-%ed')),
    '{eu order us order us refund apac cancel,payment bare}'::text[],
    'testServerSideFilterLike: a consumer gets messages whose header matches the pattern');
select is(pg_temp.outcome(pgq.header_equals('tenant', 'acme')),
    '{null,eu order us order us refund apac cancel payment bare}'::text[],
    'testServerSideFilterMissingHeader: a message without the header matches no value of it');

-- The outbox: messages are published in the transaction of the business data, which may roll back.
create temp table invoice (number int, region text, type text);
create function pg_temp.bill() returns trigger language plpgsql as $$
begin
    perform pgq.publish('orders', to_jsonb('invoice ' || new.number),
        jsonb_strip_nulls(jsonb_build_object('region', new.region, 'type', new.type)));
    return new;
end
$$;
create trigger outbox after insert on invoice for each row execute function pg_temp.bill();
select pgq.drop_queue('orders', force => true), pgq.create_queue('orders', lease => '1 h');
insert into invoice values (1, 'EU', 'paid'), (2, 'US', 'paid'), (3, 'EU', 'open');
savepoint business;
insert into invoice values (4, 'EU', 'paid');
rollback to business;
insert into invoice values (5, 'EU', 'paid'), (6, 'APAC', 'paid'), (7, null, 'paid');

select is(t.take('orders', pgq.header_equals('type', 'open'), 100), 'invoice 3',
    'testOutboxServerSideFilterEquals: an outbox consumer gets only messages with its value');
select is(t.take('orders', pgq.header_in('region', '{US,APAC}'), 100), 'invoice 2 invoice 6',
    'testOutboxServerSideFilterIn: an outbox consumer gets messages with the values of its set');
select is(t.take('orders', pgq.all_of(
        pgq.header_equals('region', 'EU'), pgq.header_equals('type', 'paid')), 100),
    'invoice 1 invoice 5',
    'testOutboxServerSideFilterAnd: an outbox consumer gets messages that meet all conditions, '
    'and none that was rolled back');
select is(t.take('orders', pgq.header_not_equals('region', 'EU'), 100), null,
    'testOutboxServerSideFilterMissingHeader: a message without the header matches no value');
select is(t.take('orders', null, 100), 'invoice 7',
    'a claim without a filter takes the message without the header');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
