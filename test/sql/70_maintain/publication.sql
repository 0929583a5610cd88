-- A publication FOR ALL TABLES, as replication tools create it, does not disturb pgq.
select no_plan();
select t.at(now());
create publication everything for all tables;
select pgq.create_queue('work', '{kind}', retention => '0', backoff => '0', max_backoff => '0');
select pgq.create_queue('rest', retention => '0', journal => 'failures');
select pgq.subscribe('rest', 'work', '{"kind": "x"}');
select count(*) from pgq.publish_batch('work', array_fill('1'::jsonb, '{50}'),
    array_fill('{"kind": "x"}'::jsonb, '{50}'), dedup_keys => array(
        select i::text from generate_series(1, 50) i));
select pgq.publish('work', '1', group_key => 'g'), pgq.publish('work', '1', delay => '1 s');
create temp table verb (name text, statement text);
insert into verb values
    ('ack', 'select pgq.ack(lease_id) from pgq.claim(''work'', n => 2) limit 1'),
    ('nack', 'select pgq.nack(lease_id) from pgq.claim(''work'', n => 2) limit 1'),
    ('bury', 'select pgq.bury(lease_id) from pgq.claim(''work'') limit 1'),
    ('release', 'select pgq.release(lease_id) from pgq.claim(''work'', n => 3) limit 1'),
    ('extend', 'select pgq.extend(lease_id, ''1 h'') from pgq.claim(''work'') limit 1'),
    ('a claim by filter', 'select pgq.claim(''work'', ''{"kind": "x"}'', 3)'),
    ('replay', 'select pgq.replay(''work'')'),
    ('pause', 'select pgq.pause(''work'')'), ('resume', 'select pgq.resume(''work'')'),
    ('alter_queue', 'select pgq.alter_queue(''work'', lane_keys => ''{}'')'),
    ('unsubscribe', 'select pgq.unsubscribe(''rest'', ''work'')'),
    ('wait_begin', 'select pgq.wait_begin(''work'', ''me'')'),
    ('seen', 'select pgq.seen(''h'', 1, 1), pgq.seen(''h'', 2, 1)'),
    ('drop_queue', 'select pgq.drop_queue(''rest'', force => true)');
select lives_ok(statement, name || ' works') from verb;
select t.advance('1 h');
select lives_ok('call pgq.maintain()', 'maintenance works');
select lives_ok('select pgq._maintain()', 'maintenance works again') from generate_series(1, 6);
select * from finish();
