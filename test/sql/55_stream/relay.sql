-- Relays: their reports, and where these are shown.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work');
select pgq.create_queue('other');

select throws_ok(format('select pgq.relay_report(%s)', a), '22023', null,
    format('relay_report refuses (%s)', a))
from unnest(array[
    $$'work', '', 'redis://host'$$, $$'work', null, 'redis://host'$$,
    $$'work', repeat('x', 201), 'redis://host'$$,
    $$'work', 'relay', 'redis://host', 'ajar'$$, $$'work', 'relay', 'redis://host', null$$]) a;
select throws_ok($$select pgq.relay_report('nowhere', 'relay', 'redis://host')$$, 'QU001', null,
    'a relay needs a queue');
select is((select relay from pgq.queue_stats where queue = 'work'), null,
    'queue_stats shows no relay before the first report');

select pgq.relay_report('work', 'relay', 'redis://host/0');
select is((select relay from pgq.queue_stats where queue = 'work'), 'silent',
    'a relay without an owner is silent');
select is((select alive from pgq.relays), false, 'a relay without an owner is not alive');
select pgq.stream_begin('work', 'relay', 'me', '30 s');
select is((select relay from pgq.queue_stats where queue = 'work'), 'closed',
    'queue_stats shows the circuit breaker of a relay that is alive');
select is((select relay from pgq.queue_stats where queue = 'other'), null,
    'queue_stats shows no relay for other queues');
select t.advance('10 s');
select pgq.relay_report('work', 'relay', 'redis://host/0', 'open', 'connection refused');
select t.advance('10 s');
select pgq.relay_report('work', 'relay', 'redis://host/0', 'open', 'connection refused again');
select results_eq(
    'select queue, relay, destination, alive, circuit, error, owner, batch,
            pgq.now() - changed_at from pgq.relays',
    $$values ('work', 'relay', 'redis://host/0', true, 'open', 'connection refused again', 'me',
              0::bigint, interval '10 s')$$,
    'changed_at stays the time when the circuit breaker opened');
select is((select relay from pgq.queue_stats where queue = 'work'), 'open',
    'queue_stats shows an open circuit breaker');
select pgq.relay_report('work', 'relay', 'redis://host/0', 'half-open');
select is((select relay from pgq.queue_stats where queue = 'work'), 'half-open',
    'queue_stats shows a half-open circuit breaker');

select pgq.stream_begin('work', 'second', 'you', '1 h');
select pgq.relay_report('work', 'second', 's3://bucket');
select is((select relay from pgq.queue_stats where queue = 'work'), 'half-open',
    'queue_stats shows the worst of several relays');
select t.advance('20 s');
select is((select relay from pgq.queue_stats where queue = 'work'), 'silent',
    'queue_stats shows silent if one of several relays is not alive');
select pgq.relay_report('work', 'relay');
select is((select relay from pgq.queue_stats where queue = 'work'), 'closed',
    'queue_stats does not show a relay that was deleted');
select lives_ok($$select pgq.relay_report('work', 'relay')$$, 'a relay can be deleted twice');

select pgq.relay_report('work', 'second', repeat('d', 3000), error => repeat('e', 9000));
select is((select length(destination) + length(error) from pgq.relays), 3000,
    'a long destination and a long error are truncated');
select pgq.drop_queue('work');
select is_empty('select from pgq.relay', 'dropping a queue deletes its relays');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
