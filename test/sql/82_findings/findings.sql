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

select is(pg_temp.found(), null, 'a new database is well');
select pgq.create_queue('calm');
select pgq.publish('calm', '1');
select is(pg_temp.found('calm'), null, 'a message that has just come is no finding');

-- the night of a user: no consumer, dead letters, a pause, and all checks said ok
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
select is(pg_temp.found('reports'), 'critical no_consumer', 'nobody consumes');
select is(pg_temp.detail('no_consumer'), 'nobody consumes it: 1 ready, the oldest for 18 min',
    'a single message that nobody wants is enough');
select is((select f.detail from pgq.findings() f where f.queue = 'reports'),
    'nobody consumes it: 2,044 ready, the oldest for 18 min', 'how many and for how long');
select is((select f.since from pgq.findings() f where f.queue = 'reports'),
    pgq.now() - interval '18 min', 'since when');
select is(pg_temp.found('webhooks'), 'warning dead_letters', 'old dead letters stay a warning');
select is(pg_temp.detail('dead_letters'),
    '696 dead letters, the last one 18 min ago; the last error: HTTP 404',
    'all of them are counted');
select is(pg_temp.found('imports'), 'warning paused', 'a paused queue with messages');
select is(pg_temp.found(), 'critical maintain_never', 'and nobody has ever maintained');
select lives_ok(pg_temp.cure('paused'), 'the cure of a pause is a statement');
select is(pg_temp.found('imports'), 'critical no_consumer', 'that cures it');
select pgq.replay('webhooks');
select is(pg_temp.found('webhooks') like '%dead%', false,
    'dead letters that are replayed are none');
call pgq.maintain();
select is(pg_temp.found(), null, 'maintenance was done');
select t.advance('20 min');
select is(pg_temp.found(), 'warning maintain_late', 'until it is late');
call pgq.maintain();
select pgq.purge(q) from unnest('{reports,webhooks,imports,calm}'::text[]) q;
select is((select count(*) from pgq.findings() where queue is not null), 0::bigint,
    'what is empty is well');

-- growing
select count(*) from pgq.publish_batch('reports', array_fill('1'::jsonb, array[100]));
select t.advance('16 min');
call pgq.maintain();
select t.advance('3 min');
select count(*) from pgq.publish_batch('reports', array_fill('1'::jsonb, array[400]));
select pgq.ack(lease_id) from pgq.claim('reports');
select is(pg_temp.found('reports'), 'critical growing', 'a queue that gets longer grows');
select pgq.purge('reports');

-- failing
select pgq.publish('webhooks', '1') from generate_series(1, 10);
select pgq.ack(lease_id) from (select distinct lease_id from pgq.claim('webhooks', n => 8)) l;
select pgq.alter_queue('webhooks', max_attempts => 9);
select pgq.nack(lease_id, delay => '1 h') from (
    select distinct lease_id from pgq.claim('webhooks', n => 2)) l;
select is(pg_temp.found('webhooks'), 'warning failing', 'a fifth of the attempts fails');
select is(pg_temp.detail('failing') like '20 \%%', true, 'it is said how many');
select pgq.alter_queue('webhooks', journal => 'failures');
select is(pg_temp.found('webhooks'), null,
    'where acknowledgements are not recorded no share is known');
select pgq.alter_queue('webhooks', journal => 'all');
select t.advance('10 min');
select pgq.purge('webhooks');

-- leases
select pgq.publish('calm', '1') from generate_series(1, 3);
select lease_id as long from pgq.claim('calm', lease => '2 days') \gset
select lease_id as short from pgq.claim('calm', lease => '1 min') \gset
select pgq.hold('calm', n => 1, key => 'name') is null;
select t.advance('3 min');
select is(pg_temp.found('calm'), 'warning lease_expired', 'a lease that has ended');
select is(pg_temp.cure('lease_expired'), 'call pgq.maintain()', 'is taken back by maintenance');
call pgq.maintain();
select is(pg_temp.found('calm') like '%leases_end%', true, 'leases that end are told');
select pgq.purge('calm');
select t.advance('2 h');
select is(pg_temp.found('calm'), 'warning lease_endless, warning lease_long',
    'leases held for long and without end');
select pgq.release(:long);
select is(pg_temp.found('calm') like '%lease_long%', false, 'until they are released');
select pgq.release(lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.purge('calm');

-- filters, lanes
select count(*) from pgq.publish_batch('calm', array_fill('1'::jsonb, array[200]));
select count(*) from pgq.claim('calm', '{"region": "eu"}');
select is(pg_temp.found('calm') like '%filter_matches_nothing%', true,
    'a filter that matches nothing');
select lives_ok(pg_temp.cure('filter_matches_nothing'), 'its cure explains it');
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
    'nothing is claimed');
select is((select array_agg(row(queue, claims, tested) order by queue)::text from pgq.filter_stats
           where queue in ('laned', 'turns', 'hashed')),
    '{"(hashed,2,0)","(laned,2,0)","(turns,2,0)"}', 'one claim in five minutes is noted');
select is(pg_temp.found('laned') like '%filter_matches%', false, 'that is not said at once');
select pg_temp.ask('laned', 1), pg_temp.ask('turns', 1);
select is(pg_temp.found('laned') like '%filter_matches_nothing%', true,
    'a filter that the lanes rule out, while messages wait');
select is(pg_temp.found('turns') like '%filter_matches_nothing%', true,
    'also where lanes take turns');
select pg_temp.ask('hashed', 1);
select is(coalesce(pg_temp.found('hashed'), '') like '%filter_matches%', false,
    'one of many values may have no message');
select pgq.purge('laned'), pgq.purge('turns'), pgq.purge('hashed');
select is(pg_temp.found('laned'), null, 'while nothing waits it is no finding');

-- schedules
select pgq.schedule('nightly', 'calm', '1', every => '1 h');
select t.advance('2 h');
select is(pg_temp.found() like '%schedule_missed%', true, 'a schedule that nobody runs');
call pgq.maintain();
select is(coalesce(pg_temp.found(), '') like '%schedule%', false, 'until somebody maintains');
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
    'a schedule whose runs fail');
select pgq.unschedule('lost');
select is(coalesce(pg_temp.found(), '') like '%schedule%', false, 'until it is removed');

-- limits
select pgq.create_queue('narrow', max_leased => 1, lease => '1 h');
select pgq.publish('narrow', '1') from generate_series(1, 3);
select count(*) from pgq.claim('narrow', n => 3);
select t.advance('2 min');
select is(pg_temp.found('narrow') like '%limit_reached%', true, 'a limit that makes messages wait');
select lives_ok(pg_temp.cure('limit_reached'), 'its cure is a statement');
select is(pg_temp.found('narrow') like '%limit_reached%', false, 'that cures it')
where pg_temp.found('narrow') is not null;
select pgq.release(lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.purge('narrow');
select pgq.create_queue('slow', rate => '1/min', burst => 2, lease => '1 h');
select pgq.publish('slow', '1') from generate_series(1, 9);
select t.advance('90 s');
select is(pg_temp.found('slow') like '%limit_reached%', false, 'a rate that nobody uses');
select count(*) from pgq.claim('slow', n => 5);
select is(pg_temp.found('slow') like '%limit_reached%', true, 'and one that is used up');
select matches(pg_temp.detail('limit_reached'), '^no more than 1/min may be claimed: 7 wait,',
    'it is said which');
select is(pg_temp.cure('limit_reached'), $$select pgq.alter_queue('slow', rate => '2/min')$$,
    'its cure');
select lives_ok(pg_temp.cure('limit_reached'), 'is a statement');
select pgq.purge('slow');
select pgq.create_queue('lanes', lane_keys => '{tenant}', lane_max_leased => 1,
    lane_rate => '60/min', lane_burst => 4, lease => '1 h');
select pgq.publish('lanes', '1', jsonb_build_object('tenant', t))
from unnest('{a,a,a,b}'::text[]) t;
select count(*) from pgq.claim('lanes', n => 2);
select t.advance('2 min');
select is(pg_temp.detail('limit_reached'),
    '1 lanes have reached their limit while messages wait: {"tenant": "a"}',
    'lanes that have reached their limit');
select lives_ok(pg_temp.cure('limit_reached'), 'and their cure');
select is((select lane_max_leased || ' ' || lane_rate from pgq.limits where queue = 'lanes'),
    '2 120/min', 'gives them more');
select pgq.release(lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.purge('lanes'), pgq.purge('slow');

-- rights
create role findings_reader;
select pgq.grant_queue('reports', 'findings_reader', 'consume');
select pgq.pause('reports'), pgq.publish('reports', '1');
select pgq.pause('calm');
set local role findings_reader;
select is((select array_agg(distinct queue) from pgq.findings() where queue is not null),
    '{reports}'::text[], 'a role sees its own queues');
reset role;
create role findings_monitor in role pg_monitor;
set local role findings_monitor;
select is((select array_agg(distinct queue order by queue) from pgq.findings()
           where queue is not null), '{calm,reports}'::text[], 'who monitors sees all');
reset role;
select is((select count(*) from pgq.findings(role => 'nobody_knows') where finding = 'rights'),
    1::bigint, 'a role that is not there');

-- publications
create publication findings_all for all tables;
select is((select array_agg(f.cure order by f.cure) from pgq.findings() f
    where finding = 'replica_identity') is not null,
    exists (select from pg_class c where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r'
            and c.relpersistence = 'p' and c.relreplident = 'd' and not exists (
                select from pg_index i where i.indrelid = c.oid and i.indisprimary)),
    'a publication of tables without replica identity');
select lives_ok(f.cure, f.cure) from pgq.findings() f where f.finding = 'replica_identity';
select is((select count(*) from pgq.findings() where finding = 'replica_identity'), 0::bigint,
    'its cure is enough');
select * from finish();
rollback;
