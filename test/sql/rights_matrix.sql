-- What each role may do with each function and relation. A function of the catalog without a row
-- fails the test.
begin;
select no_plan();

-- A role for each right to the queue "own". The stranger has all rights to another queue only.
create role matrix_nobody;
create role matrix_publisher;
create role matrix_consumer;
create role matrix_admin;
create role matrix_group;
create role matrix_member in role matrix_group;
create role matrix_stranger;

select pgq.create_queue('own', max_attempts => 1), pgq.create_queue('elsewhere');
select pgq.subscribe('own', 'own.*');
select pgq.subscribe('elsewhere', 'answers');
select pgq.grant_queue('own', 'matrix_publisher', 'publish');
select pgq.grant_queue('own', 'matrix_consumer', 'consume');
select pgq.grant_queue('own', 'matrix_group', 'consume');
select pgq.grant_queue('own', 'matrix_admin', 'admin');
select pgq.grant_queue('elsewhere', 'matrix_stranger', 'publish');
select pgq.grant_queue('elsewhere', 'matrix_stranger', 'consume');
select pgq.grant_queue('elsewhere', 'matrix_stranger', 'admin');

select pgq.publish('own', '"dead"', correlation_id => 'c') as dead \gset
select pgq.bury((select lease_id from pgq.claim('own')));
select pgq.publish('own', '"held"', reply_to => 'own') as held \gset
select lease_id as lease from pgq.claim('own', lease => '1 h') \gset
select pgq.publish('own', '"ready"');
select pgq.claim('own', key => 'named', lease => '1 h');
select pgq.stream_begin('own', 'stream', 'o');
select pgq.stream_read('own', 'stream', 0, 'reader');
select pgq.publish('own', '"ready too"');

select pgq.schedule('mine', 'own', '1', '@daily');

select gen_random_uuid() as staged \gset
insert into pgq.staged (token, position, topic, payload) values (:'staged', 1, 'own', '1');

create temp table matrix (
    function text, statement text, publisher text, consumer text, admin text, stranger text);
insert into matrix values
    -- functions that reveal nothing about queues
    ('now', 'select pgq.now()', 'ok', 'ok', 'ok', 'ok'),
    ('version', 'select pgq.version()', 'ok', 'ok', 'ok', 'ok'),
    ('matches', $$select pgq.matches('{}', '{}')$$, 'ok', 'ok', 'ok', 'ok'),
    ('matches_topic', $$select pgq.matches_topic('a.*', 'a.b')$$, 'ok', 'ok', 'ok', 'ok'),
    ('compile_filter', $$select pgq.compile_filter('{}')$$, 'ok', 'ok', 'ok', 'ok'),
    ('header_equals', $$select pgq.header_equals('k', 'v')$$, 'ok', 'ok', 'ok', 'ok'),
    ('header_in', $$select pgq.header_in('k', '{v}')$$, 'ok', 'ok', 'ok', 'ok'),
    ('header_not_equals', $$select pgq.header_not_equals('k', 'v')$$, 'ok', 'ok', 'ok', 'ok'),
    ('header_like', $$select pgq.header_like('k', 'v')$$, 'ok', 'ok', 'ok', 'ok'),
    ('all_of', $$select pgq.all_of('{}', '{}')$$, 'ok', 'ok', 'ok', 'ok'),
    ('any_of', $$select pgq.any_of('{}', '{}')$$, 'ok', 'ok', 'ok', 'ok'),
    ('addressed_to', $$select pgq.addressed_to('me')$$, 'ok', 'ok', 'ok', 'ok'),
    ('entity_filter', $$select pgq.entity_filter('{me}')$$, 'ok', 'ok', 'ok', 'ok'),
    -- publish
    ('publish', $$select pgq.publish('own', '1')$$, 'ok', '42501', 'ok', '42501'),
    ('publish', $$select pgq.publish('own.part', '1')$$, 'ok', '42501', 'ok', '42501'),
    ('publish', $$select pgq.publish('own', '1', dedup_key => 'k')$$,
        'ok', '42501', 'ok', '42501'),
    ('publish', $$select pgq.publish('own', '1'::json)$$, 'ok', '42501', 'ok', '42501'),
    ('publish', $$select pgq.publish('elsewhere', '1'::json)$$, '42501', '42501', '42501', 'ok'),
    ('publish', $$select pgq.publish('elsewhere', '1')$$, '42501', '42501', '42501', 'ok'),
    ('publish_batch', $$select pgq.publish_batch('own', '{1}')$$, 'ok', '42501', 'ok', '42501'),
    ('publish_batch', $$select pgq.publish_batch('own', '{1}', dedup_keys => '{k}')$$,
        'ok', '42501', 'ok', '42501'),
    ('publish_batch', $$select pgq.publish_batch('own', '{1}'::json[])$$,
        'ok', '42501', 'ok', '42501'),
    ('publish_staged', $$select pgq.publish_staged('{}')$$, 'ok', '42501', 'ok', 'ok'),
    ('publish_staged', format('select pgq.publish_staged(%L)', array[:'staged']),
        'ok', '42501', 'ok', '42501'),
    ('discard_staged', $$select pgq.discard_staged('{}')$$, 'ok', 'ok', 'ok', 'ok'),
    ('take_staged', $$select pgq.take_staged('{}', 0)$$, 'ok', 'ok', 'ok', 'ok'),
    ('commit_batch', $$select pgq.commit_batch('nobody', null, 'matrix', 1)$$,
        'ok', 'ok', 'ok', 'ok'),
    ('commit_batch', $$select pgq.commit_batch('reader')$$, '42501', 'ok', 'ok', '42501'),
    ('writer_epoch', $$select pgq.writer_epoch('w')$$, 'ok', '42501', 'ok', 'ok'),
    ('writer_epoch', $$select pgq.writer_epoch('w', 'own')$$, 'ok', '42501', 'ok', '42501'),
    ('insert', $$insert into pgq.staged (token, position, topic, payload)
                 values (gen_random_uuid(), 1, 'own', '1')$$, 'ok', 'ok', 'ok', 'ok'),
    ('schedule', $$select pgq.schedule('new', 'own', '1', '@daily')$$,
        'ok', '42501', 'ok', '42501'),
    ('schedule', $$select pgq.schedule('mine', 'own', '1', '@daily')$$,
        '42501', '42501', '42501', '42501'),
    ('unschedule', $$select pgq.unschedule('mine')$$, '42501', '42501', '42501', '42501'),
    ('pause_schedule', $$select pgq.pause_schedule('mine')$$, '42501', '42501', '42501', '42501'),
    ('resume_schedule', $$select pgq.resume_schedule('mine')$$,
        '42501', '42501', '42501', '42501'),
    -- A reply needs the right to read the request and the right to publish to its reply_to.
    ('reply', format('select pgq.reply(%s, ''1'')', :held), 'P0002', '42501', 'ok', 'P0002'),
    -- consume
    ('claim', $$select pgq.claim('own')$$, '42501', 'ok', 'ok', '42501'),
    ('claim', $$select pgq.claim('own', '{"a": 1}', key => 'k')$$, '42501', 'ok', 'ok', '42501'),
    ('claim', format('select pgq.claim(''own'', done => %s)', :lease),
        '42501', 'ok', 'ok', '42501'),
    ('claim', format('select pgq.claim(''elsewhere'', done => %s)', :lease),
        '42501', '42501', '42501', 'QU003'),
    ('ack', format('select pgq.ack(%s)', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('ack', format('select pgq.ack(%s, ''{%s}'')', :lease, :held), '42501', 'ok', 'ok', 'QU003'),
    ('ack', format('select pgq.ack(%s, ''{}'')', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('nack', format('select pgq.nack(%s)', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('bury', format('select pgq.bury(%s)', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('release', format('select pgq.release(%s)', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('extend', format('select pgq.extend(%s)', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('leased', format('select pgq.leased(%s)', :lease), '42501', 'ok', 'ok', 'QU003'),
    ('hold', $$select pgq.hold('own', 'k')$$, '42501', 'ok', 'ok', '42501'),
    ('named_lease', $$select pgq.named_lease('own', 'named')$$, '42501', 'ok', 'ok', '42501'),
    ('finish', format('select pgq.finish(%s, %s)', :lease, :held), '42501', 'ok', 'ok', 'QU003'),
    ('lease_parts', format('select pgq.lease_parts(%s, 2)', :lease),
        '42501', 'ok', 'ok', 'QU003'),
    ('backlog', $$select pgq.backlog('own')$$, '42501', 'ok', 'ok', '42501'),
    ('peek_slice', $$select pgq.peek_slice('own')$$, '42501', 'ok', 'ok', '42501'),
    ('stream_begin', $$select pgq.stream_begin('own', 'c', 'o')$$, '42501', 'ok', 'ok', '42501'),
    ('stream_claim', $$select pgq.stream_claim('own', 'stream', 'o', 1)$$,
        '42501', 'ok', 'ok', '42501'),
    ('stream_batch', $$select pgq.stream_batch('own', 'c', 1)$$, '42501', 'ok', 'ok', '42501'),
    ('stream_finish', $$select pgq.stream_finish('own', 'stream', 'o', 1)$$,
        '42501', 'ok', 'ok', '42501'),
    ('stream_end', $$select pgq.stream_end('own', 'stream', 'o')$$, '42501', 'ok', 'ok', '42501'),
    ('stream_bind', $$select pgq.stream_bind('own', 'stream', 'o', 'q', 0)$$,
        '42501', 'ok', 'ok', '42501'),
    ('stream_read', $$select pgq.stream_read('own', 'stream', 1, 'r')$$,
        '42501', 'ok', 'ok', '42501'),
    ('log_range', $$select pgq.log_range('own')$$, '42501', 'ok', 'ok', '42501'),
    ('read_log', $$select pgq.read_log(1, 2, 'own')$$, '42501', 'ok', 'ok', '42501'),
    ('log_parts', $$select pgq.log_parts(1, 'own')$$, '42501', 'ok', 'ok', '42501'),
    ('log_lock', $$select pgq.log_lock(0, 'own')$$, '42501', 'ok', 'ok', '42501'),
    ('relay_report', $$select pgq.relay_report('own', 'r', 'redis://host')$$,
        '42501', 'ok', 'ok', '42501'),
    ('peek', $$select pgq.peek('own')$$, '42501', 'ok', 'ok', '42501'),
    ('messages', $$select pgq.messages('own', 'scheduled')$$, '42501', 'ok', 'ok', '42501'),
    ('dead_letter_ids', $$select pgq.dead_letter_ids('own')$$, '42501', 'ok', 'ok', '42501'),
    ('wait_begin', $$select pgq.wait_begin('own', 'w')$$, '42501', 'ok', 'ok', '42501'),
    ('wait_end', $$select pgq.wait_end('own', 'w')$$, '42501', 'ok', 'ok', '42501'),
    ('channel', $$select pgq.channel('own')$$, '42501', 'ok', 'ok', '42501'),
    ('explain_filter', $$select pgq.explain_filter('own', '{}')$$, '42501', 'ok', 'ok', '42501'),
    -- Every role that consumes from some queue may call these; other tests check what they return.
    ('seen', format('select pgq.seen(''h'', %s)', :held), '42501', 'ok', 'ok', 'ok'),
    ('history', format('select pgq.history(%s)', :held), '42501', 'ok', 'ok', 'ok'),
    ('replies', $$select pgq.replies('c')$$, '42501', 'ok', 'ok', 'ok'),
    ('result', 'select pgq.result(1)', 'ok', 'ok', 'ok', 'ok'),
    ('wait_result', $$select pgq.wait_result(1, 'w')$$, 'ok', 'ok', 'ok', 'ok'),
    ('metrics', 'select pgq.metrics()', '42501', 'ok', 'ok', 'ok'),
    ('findings', 'select pgq.findings()', '42501', 'ok', 'ok', 'ok'),
    -- admin
    ('alter_queue', $$select pgq.alter_queue('own', lease => '1 s')$$,
        '42501', '42501', 'ok', '42501'),
    ('pause', $$select pgq.pause('own')$$, '42501', '42501', 'ok', '42501'),
    ('resume', $$select pgq.resume('own')$$, '42501', '42501', 'ok', '42501'),
    ('drop_queue', $$select pgq.drop_queue('own', force => true)$$,
        '42501', '42501', 'ok', '42501'),
    ('replay', $$select pgq.replay('own')$$, '42501', '42501', 'ok', '42501'),
    ('discard', $$select pgq.discard('own')$$, '42501', '42501', 'ok', '42501'),
    ('purge', $$select pgq.purge('own')$$, '42501', '42501', 'ok', '42501'),
    ('cancel', $$select pgq.cancel('own', '{1}')$$, '42501', '42501', 'ok', '42501'),
    ('reschedule', $$select pgq.reschedule('own')$$, '42501', '42501', 'ok', '42501'),
    ('move', $$select pgq.move('own', 'elsewhere')$$, '42501', '42501', '42501', '42501'),
    ('move', $$select pgq.move('elsewhere', 'own')$$, '42501', '42501', '42501', '42501'),
    ('replay', $$select pgq.replay('own', to_queue => 'elsewhere')$$,
        '42501', '42501', '42501', '42501'),
    ('unsubscribe', $$select pgq.unsubscribe('own', 'own.*')$$, '42501', '42501', 'ok', '42501'),
    ('unsubscribe_all', $$select pgq.unsubscribe_all('own')$$, '42501', '42501', 'ok', '42501'),
    ('subscribe', $$select pgq.subscribe('own', 'own.part')$$, '42501', '42501', 'ok', '42501'),
    ('subscribe', $$select pgq.subscribe('own', 'elsewhere')$$,
        '42501', '42501', '42501', '42501'),
    ('subscribe', $$select pgq.subscribe('elsewhere', 'own')$$,
        '42501', '42501', '42501', '42501'),
    ('subscribe', $$select pgq.subscribe('new', 'elsewhere')$$,
        '42501', '42501', '42501', '42501'),
    ('alter_subscription', $$select pgq.alter_subscription('own', 'own.*', '{"a": 1}')$$,
        '42501', '42501', 'ok', '42501'),
    -- functions for the owner only
    ('create_queue', $$select pgq.create_queue('new')$$, '42501', '42501', '42501', '42501'),
    ('grant_queue', $$select pgq.grant_queue('own', 'matrix_nobody', 'publish')$$,
        '42501', '42501', '42501', '42501'),
    ('revoke_queue', $$select pgq.revoke_queue('own', 'matrix_group', 'consume')$$,
        '42501', '42501', '42501', '42501'),
    ('maintain', 'call pgq.maintain()', '42501', '42501', '42501', '42501'),
    ('read_log', 'select pgq.read_log(1, 2)', '42501', '42501', '42501', '42501'),
    ('archive_next', 'select pgq.archive_next()', '42501', '42501', '42501', '42501'),
    ('archive_wait', $$select pgq.archive_wait('1 h')$$, '42501', '42501', '42501', '42501'),
    ('archived', 'select pgq.archived(0, 0, 0)', '42501', '42501', '42501', '42501'),
    ('archive_begin', $$select pgq.archive_begin('o')$$, '42501', '42501', '42501', '42501'),
    ('archive_end', $$select pgq.archive_end('o')$$, '42501', '42501', '42501', '42501'),
    ('check', 'select pgq."check"()', '42501', '42501', '42501', '42501'),
    -- writing to tables and sequences: INSERT into pgq.message is part of the interface
    ('insert', $$insert into pgq.message (topic, payload) values ('own', '1')$$,
        'ok', '42501', 'ok', '42501'),
    ('insert', $$insert into pgq.message (topic, payload) values ('own', '1'), ('own.a', '2')$$,
        'ok', '42501', 'ok', '42501'),
    ('insert', $$insert into pgq.message (topic, payload)
                 values ('own', '1'), ('elsewhere', '2')$$, '42501', '42501', '42501', '42501'),
    ('insert', $$insert into pgq.message (topic, payload, deliver_at)
                 values ('own', '1', 'infinity')$$, 'ok', '42501', 'ok', '42501'),
    ('insert', $$insert into pgq.message (topic, payload) values ('nowhere', '1')$$,
        '42501', '42501', '42501', '42501'),
    ('insert', $$insert into pgq.message (id, topic, payload) values (1, 'own', '1')$$,
        '42501', '42501', '42501', '42501'),
    ('insert', $$insert into pgq.message (era, topic, payload) values (1, 'own', '1')$$,
        '42501', '42501', '42501', '42501'),
    ('insert', $$insert into pgq.message (topic, payload, published_at)
                 values ('own', '1', 'epoch')$$, '42501', '42501', '42501', '42501'),
    ('insert', format('insert into pgq.message (topic, payload, publisher)'
                      ' values (''own'', ''1'', %L)', current_user),
        '42501', '42501', '42501', '42501'),
    ('insert', $$insert into pgq.message (topic, payload) values ('own', '1') returning id$$,
        '42501', '42501', '42501', '42501'),
    ('insert', $$insert into pgq.message_0 (topic, payload) values ('own', '1')$$,
        '42501', '42501', '42501', '42501'),
    ('update', $$update pgq.message set payload = '2'$$, '42501', '42501', '42501', '42501'),
    ('delete', $$delete from pgq.dead_letter$$, '42501', '42501', '42501', '42501'),
    ('sequence', $$select nextval('pgq.era_number')$$, '42501', '42501', '42501', '42501'),
    ('sequence', $$select setval('pgq.message_id', 1)$$, '42501', '42501', '42501', '42501');

select set_eq(
    $$select proname::text from pg_proc
      where pronamespace = 'pgq'::regnamespace and proname not like '\_%'$$,
    $$select distinct function from matrix
      where function not in ('insert', 'update', 'delete', 'sequence')$$,
    'every public function has its row in the matrix');

create temp table expected as
select m.function, m.statement, r.role, r.outcome
from matrix m
cross join lateral (values
    ('matrix_nobody', '42501'), ('matrix_publisher', m.publisher),
    ('matrix_consumer', m.consumer), ('matrix_member', m.consumer), ('matrix_admin', m.admin),
    ('matrix_stranger', m.stranger)) r (role, outcome);
select cmp_ok((select count(*) from expected), '>', 300::bigint, 'the matrix has cells to check');
select is_empty(
    $$select e.role, e.statement, e.outcome as expected, t.outcome(e.role, e.statement) as got
      from expected e where t.outcome(e.role, e.statement) <> e.outcome$$,
    'after SET ROLE, every statement has the expected outcome for every role');
select is_empty(
    $$select e.role, e.statement, e.outcome as expected,
             t.outcome(e.role, e.statement, 'session_authorization') as got
      from expected e
      where t.outcome(e.role, e.statement, 'session_authorization') <> e.outcome$$,
    'after SET SESSION AUTHORIZATION, every statement has the expected outcome for every role');
select is_empty(
    $$select e.statement, t.outcome(current_user, e.statement) as got
      from (select distinct statement from expected where outcome = 'ok') e
      where t.outcome(current_user, e.statement) <> 'ok'$$,
    'the owner may do everything that a role may do');

-- tables, views and sequences: who may read them
create temp table readable (relation text, roles text[]);
insert into readable values
    ('rights', '{matrix_publisher,matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('schedules', '{matrix_publisher,matrix_admin,matrix_stranger}'),
    ('era_number', '{matrix_publisher,matrix_admin,matrix_stranger}'),
    ('queue_stats', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('message_state', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('leased_message', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('dead_letter', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('subscription', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('filter_stats', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('queue_traffic', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('_metric', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('limits', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('relays', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('streams', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}'),
    ('_visible_queue', '{matrix_consumer,matrix_member,matrix_admin,matrix_stranger}');
select is_empty(
    $$select c.relname, r.role, t.outcome(r.role, format('select from pgq.%I', c.relname)) as got
      from pg_class c
      cross join (select distinct role from expected) r
      where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
        and (t.outcome(r.role, format('select * from pgq.%I', c.relname)) = 'ok')
            <> exists (select from readable a where a.relation = c.relname
                       and r.role = any (a.roles))$$,
    'every role may read the views that belong to its right, and no table');
select is_empty(
    $$select c.relname, r.role
      from pg_class c
      cross join (select distinct role from expected) r
      where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
        and case c.relkind
            when 'S' then has_sequence_privilege(r.role, c.oid, 'update')
            else has_table_privilege(r.role, c.oid, 'insert, update, delete, truncate, trigger')
            end$$,
    'no role may write to a whole table, view or sequence');
select is_empty(
    $$select p.proname, r.role
      from pg_proc p
      cross join (select distinct role from expected) r
      where p.pronamespace = 'pgq'::regnamespace and p.proname like '\_%'
        and has_function_privilege(r.role, p.oid, 'execute')
        and p.proname not in (
            '_queue_stats', '_metrics', '_findings', '_server_findings', '_span')$$,
    'no role may call internal functions, except those that views use');

select is_empty('select * from pgq.check()', 'the stored state is sound');
select * from finish();
rollback;
