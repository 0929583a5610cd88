-- Problems are reported with their cure; a healthy database has no findings.
begin;
select no_plan();
select t.at(now());
create function pg_temp.found(queue text default null) returns text language sql as $$
    select string_agg(f.severity || ' ' || f.finding, ', ' order by f.severity, f.finding)
    from pgq.findings(role => null) f
    where f.queue is not distinct from found.queue and f.finding <> 'rights' $$;
create function pg_temp.detail(finding text) returns text language sql as $$
    select f.detail from pgq.findings() f where f.finding = detail.finding limit 1 $$;
create function pg_temp.cure(finding text) returns text language sql as $$
    select f.cure from pgq.findings() f where f.finding = cure.finding limit 1 $$;

select is(pg_temp.found(), null, 'a new database has no findings');
select pgq.create_queue('calm');
select pgq.publish('calm', '1');
select is(pg_temp.found('calm'), null, 'a message that was just published is no finding');

-- a user's incident: no consumer, dead letters and a paused queue, while all checks said ok
select pgq.create_queue('reports');
select pgq.create_queue('webhooks', max_attempts => 1);
select pgq.create_queue('imports');
select count(*) from pgq.publish_batch('reports', array_fill('1'::jsonb, array[2044]));
select count(*) from pgq.publish_batch('webhooks', array_fill('1'::jsonb, array[696]));
select pgq.nack(lease_id, error => 'HTTP 404') from (
    select distinct lease_id from pgq.claim('webhooks', n => 1000)) l;
select pgq.publish('imports', '1');
select pgq.pause('imports');
select is(pg_temp.found('webhooks'), 'critical dead_letters_rising, critical failing',
    'new dead letters are critical');
select t.advance('18 min');
select is(pg_temp.found('reports'), 'critical no_consumer',
    'a queue without a consumer is critical');
select is(pg_temp.detail('no_consumer'), 'nobody consumes it: 1 ready, the oldest for 18 min',
    'one message that nobody consumes is a finding');
select is((select f.detail from pgq.findings() f where f.queue = 'reports'),
    'nobody consumes it: 2,044 ready, the oldest for 18 min',
    'the finding says how many messages wait and for how long');
select is((select f.since from pgq.findings() f where f.queue = 'reports'),
    pgq.now() - interval '18 min', 'the finding says since when');
select is(pg_temp.found('webhooks'), 'warning dead_letters', 'old dead letters stay a warning');
select is(pg_temp.detail('dead_letters'),
    '696 dead letters, the last one 18 min ago; the last error: HTTP 404',
    'the finding counts all dead letters');
savepoint traceback;
select pgq.publish('webhooks', '2');
select pgq.nack(lease_id, error => E'Traceback (most recent call last):\n  File "a.py", line 3\n'
    'ValueError: no such box\n') from pgq.claim('webhooks');
select ok(pg_temp.detail('dead_letters_rising') like '%the last error: ValueError: no such box',
    'the finding names the exception of a Python traceback');
rollback to savepoint traceback;
select is(pg_temp.found('imports'), 'warning paused', 'a paused queue with messages is a warning');
select is(pg_temp.found(), 'critical maintain_never',
    'a database that was never maintained is critical');
select lives_ok(pg_temp.cure('paused'), 'the cure of a pause is a statement');
select is(pg_temp.found('imports'), 'critical no_consumer',
    'the cure ends the finding, and the queue has no consumer');
select pgq.replay('webhooks');
select is(pg_temp.found('webhooks') like '%dead%', false,
    'replayed dead letters are no finding');
call pgq.maintain();
select is(pg_temp.found(), null, 'a maintained database has no findings');
select t.advance('20 min');
select is(pg_temp.found(), 'warning maintain_late', 'late maintenance is a warning');
call pgq.maintain();
select pgq.purge(q) from unnest('{reports,webhooks,imports,calm}'::text[]) q;
select is((select count(*) from pgq.findings() where queue is not null), 0::bigint,
    'empty queues have no findings');

-- growing
select count(*) from pgq.publish_batch('reports', array_fill('1'::jsonb, array[100]));
select t.advance('16 min');
call pgq.maintain();
select t.advance('3 min');
select count(*) from pgq.publish_batch('reports', array_fill('1'::jsonb, array[400]));
select pgq.ack(lease_id) from pgq.claim('reports');
select is(pg_temp.found('reports'), 'critical growing', 'a queue whose backlog grows is critical');
select pgq.purge('reports');

-- failing
select pgq.publish('webhooks', '1') from generate_series(1, 10);
select pgq.ack(lease_id) from (select distinct lease_id from pgq.claim('webhooks', n => 8)) l;
select pgq.alter_queue('webhooks', max_attempts => 9);
select pgq.nack(lease_id, delay => '1 h') from (
    select distinct lease_id from pgq.claim('webhooks', n => 2)) l;
select is(pg_temp.found('webhooks'), 'warning failing', 'a fifth of failed attempts is a warning');
select is(pg_temp.detail('failing') like '20 \%%', true, 'the finding says which share fails');
select pgq.alter_queue('webhooks', journal => 'failures');
select is(pg_temp.found('webhooks'), null,
    'a queue that does not record acknowledgements has no such finding');
select pgq.alter_queue('webhooks', journal => 'all');
select t.advance('10 min');
select pgq.purge('webhooks');

-- leases
select pgq.publish('calm', '1') from generate_series(1, 3);
select lease_id as long from pgq.claim('calm', lease => '2 days') \gset
select lease_id as short from pgq.claim('calm', lease => '1 min') \gset
select pgq.hold('calm', n => 1, key => 'name') is null;
select t.advance('3 min');
select is(pg_temp.found('calm'), 'warning lease_expired', 'an expired lease is a warning');
select is(pg_temp.cure('lease_expired'), 'call pgq.maintain()',
    'the cure of an expired lease is maintenance');
call pgq.maintain();
select is(pg_temp.found('calm') like '%leases_end%', true,
    'redeliveries after expired leases are a finding');
select pgq.purge('calm');
select t.advance('2 h');
select is(pg_temp.found('calm'), 'warning lease_endless, warning lease_long',
    'leases that are held for long or without an end are warnings');
select pgq.release(:long);
select is(pg_temp.found('calm') like '%lease_long%', false, 'a released lease is no finding');
select pgq.release(lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.purge('calm');

-- filters, lanes
select count(*) from pgq.publish_batch('calm', array_fill('1'::jsonb, array[200]));
select count(*) from pgq.claim('calm', '{"region": "eu"}');
select is(pg_temp.found('calm') like '%filter_matches_nothing%', true,
    'a filter that matches nothing is a finding');
select lives_ok(pg_temp.cure('filter_matches_nothing'), 'the cure of that finding is a statement');
select pgq.purge('calm');
-- filters that the lanes rule out: no message is tested
select pgq.create_queue('laned', lane_keys => '{region}');
select pgq.create_queue('turns', lane_keys => '{region}', fair => true);
select pgq.create_queue('hashed', lane_keys => '{#region}');
create function pg_temp.ask(queue text, times int) returns int language plpgsql as $$
declare
    v_count int := 0;
begin
    for i in 1 .. times loop
        v_count := v_count + (select count(*) from pgq.claim(queue, '{"region": "eu"}'));
        v_count := v_count + (select count(*) from pgq.claim(queue, '{"region": "eu"}'));
        perform t.advance('6 min');
    end loop;
    return v_count;
end
$$;
select pgq.publish(q, '1', '{"region": "EU"}') from unnest('{laned,turns,hashed}'::text[]) q;
select is(pg_temp.ask('laned', 2) + pg_temp.ask('turns', 2) + pg_temp.ask('hashed', 2), 0,
    'filters that the lanes rule out claim nothing');
select is((select array_agg(row(queue, claims, tested) order by queue)::text from pgq.filter_stats
           where queue in ('laned', 'turns', 'hashed')),
    '{"(hashed,2,0)","(laned,2,0)","(turns,2,0)"}',
    'filter_stats counts one such claim in five minutes');
select is(pg_temp.found('laned') like '%filter_matches%', false,
    'a filter that the lanes rule out is no finding at first');
select pg_temp.ask('laned', 1), pg_temp.ask('turns', 1);
select is(pg_temp.found('laned') like '%filter_matches_nothing%', true,
    'a filter that the lanes rule out is a finding later, while messages wait');
select is(pg_temp.found('turns') like '%filter_matches_nothing%', true,
    'such a filter is a finding in a fair queue too');
select pg_temp.ask('hashed', 1);
select is(coalesce(pg_temp.found('hashed'), '') like '%filter_matches%', false,
    'a filter on a hashed lane key is no finding: one of many values may have no message');
select pgq.purge('laned'), pgq.purge('turns'), pgq.purge('hashed');
select is(pg_temp.found('laned'), null, 'such a filter is no finding while no message waits');

-- schedules
select pgq.schedule('nightly', 'calm', '1', every => '1 h');
select t.advance('2 h');
select is(pg_temp.found() like '%schedule_missed%', true,
    'a schedule that nobody runs is a finding');
call pgq.maintain();
select is(coalesce(pg_temp.found(), '') like '%schedule%', false,
    'maintenance ends the finding of a missed schedule');
select pgq.create_queue('gone');
select pgq.schedule('lost', 'gone', '1', every => '1 h');
select pgq.drop_queue('gone');
select t.advance('1 h');
set local client_min_messages = error;
call pgq.maintain();
reset client_min_messages;
select is((select f.severity || ': ' || f.detail from pgq.findings() f
           where f.finding = 'schedule_fails'),
    'critical: schedule lost of topic gone fails: no queue receives topic "gone"',
    'a schedule whose runs fail is critical');
select pgq.unschedule('lost');
select is(coalesce(pg_temp.found(), '') like '%schedule%', false,
    'a removed schedule is no finding');

-- limits
select pgq.create_queue('narrow', max_leased => 1, lease => '1 h');
select pgq.publish('narrow', '1') from generate_series(1, 3);
select count(*) from pgq.claim('narrow', n => 3);
select t.advance('2 min');
select is(pg_temp.found('narrow') like '%limit_reached%', true,
    'a limit that makes messages wait is a finding');
select lives_ok(pg_temp.cure('limit_reached'), 'the cure of a reached limit is a statement');
select is(coalesce(pg_temp.found('narrow'), '') like '%limit_reached%', false,
    'the cure ends the finding of a reached limit');
select pgq.release(lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.purge('narrow');
select pgq.create_queue('slow', rate => '1/min', burst => 2, lease => '1 h');
select pgq.publish('slow', '1') from generate_series(1, 9);
select t.advance('90 s');
select is(pg_temp.found('slow') like '%limit_reached%', false,
    'a rate that is not used up is no finding');
select count(*) from pgq.claim('slow', n => 5);
select is(pg_temp.found('slow') like '%limit_reached%', true,
    'a rate that is used up is a finding');
select matches(pg_temp.detail('limit_reached'), '^no more than 1/min may be claimed: 7 wait,',
    'the finding says which rate is used up');
select is(pg_temp.cure('limit_reached'), $$select pgq.alter_queue('slow', rate => '2/min')$$,
    'the cure of a rate that is used up doubles it');
select lives_ok(pg_temp.cure('limit_reached'), 'the cure of a rate that is used up is a statement');
select pgq.purge('slow');
select pgq.create_queue('lanes', lane_keys => '{tenant}', lane_max_leased => 1,
    lane_rate => '60/min', lane_burst => 4, lease => '1 h');
select pgq.publish('lanes', '1', jsonb_build_object('tenant', t))
from unnest('{a,a,a,b}'::text[]) t;
select count(*) from pgq.claim('lanes', n => 2);
select t.advance('2 min');
select is(pg_temp.detail('limit_reached'),
    '1 lanes have reached their limit while messages wait: {"tenant": "a"}',
    'lanes that have reached their limit are a finding');
select lives_ok(pg_temp.cure('limit_reached'),
    'the cure of lanes that have reached their limit is a statement');
select is((select lane_max_leased || ' ' || lane_rate from pgq.limits where queue = 'lanes'),
    '2 120/min', 'the cure doubles the limits of the lanes');
select pgq.release(lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.purge('lanes'), pgq.purge('slow');

-- rights
create role findings_reader;
select pgq.grant_queue('reports', 'findings_reader', 'consume');
select pgq.pause('reports'), pgq.publish('reports', '1');
select pgq.pause('calm');
set local role findings_reader;
select is((select array_agg(distinct queue) from pgq.findings() where queue is not null),
    '{reports}'::text[], 'a role sees findings of its own queues only');
reset role;
create role findings_monitor in role pg_monitor;
set local role findings_monitor;
select is((select array_agg(distinct queue order by queue) from pgq.findings()
           where queue is not null), '{calm,reports}'::text[],
    'a member of pg_monitor sees the findings of all queues');
reset role;
select is((select count(*) from pgq.findings(role => 'nobody_knows') where finding = 'rights'),
    1::bigint, 'a role that does not exist is a finding');

-- publications
create publication findings_all for all tables;
select is((select array_agg(f.cure order by f.cure) from pgq.findings() f
    where finding = 'replica_identity') is not null,
    exists (select from pg_class c where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r'
            and c.relpersistence = 'p' and c.relreplident = 'd' and not exists (
                select from pg_index i where i.indrelid = c.oid and i.indisprimary)),
    'a publication of tables without a replica identity is a finding');
select lives_ok(f.cure, f.cure) from pgq.findings() f where f.finding = 'replica_identity';
select is((select count(*) from pgq.findings() where finding = 'replica_identity'), 0::bigint,
    'the cures end the findings about replica identities');
select * from finish();
rollback;
