-- Relays: their reports, and where these are shown.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work');
select pgq.create_queue('other');

select throws_ok(format('select pgq.relay_report(%s)', a), '22023', null, format('not (%s)', a))
from unnest(array[
    $$'work', '', 'redis://host'$$, $$'work', null, 'redis://host'$$,
    $$'work', repeat('x', 201), 'redis://host'$$,
    $$'work', 'relay', 'redis://host', 'ajar'$$, $$'work', 'relay', 'redis://host', null$$]) a;
select throws_ok($$select pgq.relay_report('nowhere', 'relay', 'redis://host')$$, 'QU001', null,
    'a relay needs a queue');
select is((select relay from pgq.queue_stats where queue = 'work'), null, 'a queue has no relay');

select pgq.relay_report('work', 'relay', 'redis://host/0');
select is((select relay from pgq.queue_stats where queue = 'work'), 'silent',
    'a relay without an owner is silent');
select is((select alive from pgq.relays), false, 'and not alive');
select pgq.stream_begin('work', 'relay', 'me', '30 s');
select is((select relay from pgq.queue_stats where queue = 'work'), 'closed',
    'one that lives is what its circuit is');
select is((select relay from pgq.queue_stats where queue = 'other'), null, 'others have none');
select t.advance('10 s');
select pgq.relay_report('work', 'relay', 'redis://host/0', 'open', 'connection refused');
select t.advance('10 s');
select pgq.relay_report('work', 'relay', 'redis://host/0', 'open', 'connection refused again');
select results_eq(
    'select queue, relay, destination, alive, circuit, error, owner, batch,
            pgq.now() - changed_at from pgq.relays',
    $$values ('work', 'relay', 'redis://host/0', true, 'open', 'connection refused again', 'me',
              0::bigint, interval '10 s')$$, 'a circuit is open since it was opened');
select is((select relay from pgq.queue_stats where queue = 'work'), 'open', 'which statistics say');
select pgq.relay_report('work', 'relay', 'redis://host/0', 'half-open');
select is((select relay from pgq.queue_stats where queue = 'work'), 'half-open', 'so is a trial');

select pgq.stream_begin('work', 'second', 'you', '1 h');
select pgq.relay_report('work', 'second', 's3://bucket');
select is((select relay from pgq.queue_stats where queue = 'work'), 'half-open',
    'of several relays the worst is shown');
select t.advance('20 s');
select is((select relay from pgq.queue_stats where queue = 'work'), 'silent',
    'one that is not heard of is worse than an open circuit');
select pgq.relay_report('work', 'relay');
select is((select relay from pgq.queue_stats where queue = 'work'), 'closed',
    'until it is forgotten');
select lives_ok($$select pgq.relay_report('work', 'relay')$$, 'which can be said twice');

select pgq.relay_report('work', 'second', repeat('d', 3000), error => repeat('e', 9000));
select is((select length(destination) + length(error) from pgq.relays), 3000,
    'what is long is cut off');
select pgq.drop_queue('work');
select is_empty('select from pgq.relay', 'relays go with their queue');
select is_empty('select * from pgq.check()', 'the stored state is sound');
select * from finish();
rollback;
