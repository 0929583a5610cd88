-- Waiting messages are cancelled or purged; leased messages and dead letters stay.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', lease => '1 h', max_attempts => 2, set_size => 4);
select pgq.create_queue('other');
create function pg_temp.send(queue text, variadic names text[]) returns void language plpgsql as $$
begin
    perform pgq.publish_batch(queue, array(select to_jsonb(n) from unnest(names) n),
        array(select jsonb_build_object('name', n, 'even', n in ('b', 'd', 'f'))
            from unnest(names) n));
end
$$;
create function pg_temp.id_of(name text) returns bigint language sql as $$
    select m.id from pgq.message m where m.payload #>> '{}' = name order by m.id desc limit 1 $$;
create function pg_temp.events(name text) returns text language sql as $$
    select string_agg(h.event || coalesce(' ' || h.note, ''), ', ')
    from pgq.history(pg_temp.id_of(name)) h where h.event <> 'publish' $$;

-- by id
select pg_temp.send('work', 'a', 'b', 'c', 'd', 'e', 'f');
select is(pgq.cancel('work', array[pg_temp.id_of('b'), pg_temp.id_of('e'), 999999999],
    dry_run => true), 2::bigint,
    'a dry run counts the waiting messages among the ids');
select is(t.held('work', 'ready'), 'a b c d e f', 'a dry run of cancel changes nothing');
select is(pgq.cancel('work', array[pg_temp.id_of('b'), pg_temp.id_of('e'), 999999999]), 2::bigint,
    'messages are cancelled by id');
select is(t.held('work', 'ready'), 'a c d f', 'messages with other ids stay ready');
select is_empty('select * from pgq.check()',
    'nothing is broken after messages were cancelled by id');
select is(pgq.cancel('work', array[pg_temp.id_of('b')]), 0::bigint,
    'a cancelled message cannot be cancelled again');
select is(pgq.cancel('work', '{}'::bigint[]), 0::bigint, 'an empty array of ids cancels nothing');
select is(pg_temp.events('b'), 'cancel', 'the history of a cancelled message shows the cancel');

-- by filter
select is(pgq.cancel('work', filter => '{"even": true}', dry_run => true), 2::bigint,
    'a dry run counts the messages that match');
select is(pgq.cancel('work', filter => '{"even": true}'), 2::bigint,
    'messages are cancelled by filter');
select is(pgq.cancel('work', array[pg_temp.id_of('a')], '{"name": "c"}'), 0::bigint,
    'a message is cancelled only if both its id and the filter match');
select is(t.take('work', n => 10), 'a c',
    'messages that were not cancelled are delivered in order');
select is_empty('select * from pgq.check()',
    'nothing is broken after messages were cancelled by filter');

-- leased messages stay
select pg_temp.send('work', 'g', 'h');
select is(pgq.cancel('work', filter => '{"name": {"$in": ["a", "g"]}}'), 1::bigint,
    'a leased message is not cancelled');
select is(t.held('work', 'leased'), 'a c', 'leased messages stay leased');
select is(t.take('work', n => 10), 'h', 'a waiting message that does not match is delivered');
select pgq.nack(lease_id, delay => '5 min') from (select distinct lease_id from pgq.lease) l;
select is(t.held('work', 'retrying'), 'a c h', 'messages that failed wait for their retry');

-- scheduled
select pgq.publish('work', '"later"', '{"name": "later"}', delay => '1 h');
select is(pgq.cancel('work', filter => '{"name": {"$in": ["c", "later"]}}'), 2::bigint,
    'delayed messages and retries are cancelled');
select is(t.held('work', 'retrying'), 'a h', 'only the matching messages of a row are cancelled');
select is_empty('select * from pgq.check()',
    'nothing is broken after scheduled messages were cancelled');
select is(pgq.cancel('work', filter => '{"msg": {"attempt": 2}}', dry_run => true), 2::bigint,
    'a filter on the attempt tests the attempt of the next delivery');

-- by dedup key
select pgq.publish('work', '"keyed"', dedup_key => 'k1', delay => '1 h');
select pgq.publish('work', '"keyed too"', dedup_key => 'k2');
select is(pgq.cancel('work', dedup_key => 'k1'), 1::bigint,
    'a message is cancelled by its dedup key');
select is(t.held('work', 'ready'), 'keyed too', 'a message with another dedup key stays');
select is(pgq.publish('work', '"keyed anew"', dedup_key => 'k1') > pgq.publish('work', '1',
    dedup_key => 'k2'), true,
    'the dedup key of a cancelled message can be used again');
select pgq.cancel('work', dedup_key => 'k1');

-- purge
select pgq.publish('work', '"x"') from generate_series(1, 20);
select pgq.bury(lease_id) from pgq.claim('work', n => 1);
select count(*) from pgq.claim('work', n => 1);
select is(pgq.purge('work', dry_run => true), 21::bigint,
    'a dry run of purge counts the waiting messages');
select is(pgq.purge('work', '{"name": "h"}'), 1::bigint,
    'purge removes the messages that match a filter');
select is(pgq.purge('work'), 20::bigint, 'purge without a filter removes all waiting messages');
select results_eq(
    'select ready, scheduled, waiting, leased, dead from pgq.queue_stats where queue = ''work''',
    'values (0::bigint, 0::bigint, 0::bigint, 1::bigint, 1::bigint)',
        'purge keeps leased messages and dead letters');
select is(pgq.publish('work', '"after"') is not null, true, 'a purged queue accepts new messages');
select is(t.take('work'), 'after', 'a purged queue delivers new messages');
select is((select sum(size) from pgq.outcome o join pgq.queue q using (queue_id) where name = 'work'
    and event = 'purge'), 21::numeric,
    'purged messages are counted');
select is((select array_agg(distinct event order by event) from pgq.journal
    where event in ('cancel', 'purge')), '{cancel,purge}'::text[],
    'cancelled and purged messages are in the audit log');

-- ordering groups
select pgq.create_queue('line');
create function pg_temp.grouped(variadic names text[]) returns void language sql as $$
    select pgq.publish('line', to_jsonb(n), jsonb_build_object('name', n), group_key => left(n, 1))
    from unnest(names) n $$;
select pg_temp.grouped('g1', 'g2', 'g3', 'g4', 'h1', 'h2');
select is(t.held('line', 'ready'), 'g1 h1', 'the heads of both groups are ready');
select is(pgq.cancel('line', filter => '{"name": {"$in": ["g1", "g3"]}}'), 2::bigint,
    'the head and a waiting message of a group are cancelled');
select is(t.held('line', 'ready') || '/' || t.held('line', 'waiting'), 'g2 h1/g4 h2',
    'the next message of the group becomes its head');
select is_empty('select * from pgq.check()', 'the groups are sound');
select is(t.take('line', n => 10), 'g2 h1', 'the heads of both groups are leased');
select is(pgq.purge('line'), 2::bigint, 'messages that wait behind a leased head are purged');
select pgq.ack(lease_id) from (select distinct lease_id from pgq.lease l
    join pgq.queue q using (queue_id) where name = 'line') l;
select is((select count(*) from pgq.group_head), 0::bigint,
    'a finished group leaves no row in group_head');
select pg_temp.grouped('g5', 'g6');
select is(pgq.purge('line'), 2::bigint, 'purge removes whole groups');
select is((select count(*) from pgq.group_head), 0::bigint,
    'a purged group leaves no row in group_head');
select pg_temp.grouped('g7');
select is(t.take('line'), 'g7', 'the key of a purged group can be used again');
select is_empty('select * from pgq.check()', 'the state is sound');

-- bad input
select throws_ok(format('select pgq.%s', x), code, null, x) from (values
    ('cancel(''work'')', '22023'), ('cancel(''nowhere'', filter => ''{}'')', 'QU001'),
    ('cancel(''work'', filter => ''{"$what": 1}'')', 'QU004'), ('purge(''nowhere'')', 'QU001'),
    ('purge(null)', 'QU001'),
    ('purge(''work'', ''{"$what": 1}'')', 'QU004')) v (x, code);
select is(t.hint_of('select pgq.cancel(''work'')'),
    'To cancel everything that waits use pgq.purge(topic).',
    'the error of cancel without a selection has a hint at purge');

-- many messages: the cost of purge depends on the number of rows, not of messages
select count(*) from pgq.publish_batch('other', array_fill('1'::jsonb, array[100000]));
select is(pgq.purge('other'), 100000::bigint, '100000 messages are purged');
select cmp_ok((select count(*) from pgq.journal j join pgq.queue q using (queue_id)
    where name = 'other'), '<=', 2::bigint,
    'purge of 100000 messages writes at most two rows of the audit log');
select is((select count(*) from pgq.ready r join pgq.queue q using (queue_id)
    where q.name = 'other'), 0::bigint, 'no ready row is left after purge');
select * from finish();
rollback;
