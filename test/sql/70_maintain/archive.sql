-- The archive: an era is emptied after its copy is confirmed, or after a limited wait.
-- Not in one transaction: a slot is truncated by a later transaction than its last copy.
select no_plan();
select t.at(now());
select pgq.create_queue('work', retention => '1 h', lease => '10 years');
create function pg_temp.checksum(slot int) returns bigint language plpgsql as $$
begin
    return (select sum(('x' || left(md5(concat_ws('|', id, topic, priority, headers, payload,
        (extract(epoch from published_at) * 1000000)::bigint, coalesce('=' || sender, '-'),
        coalesce('=' || recipient, '-'), coalesce('=' || reply_to, '-'),
        coalesce('=' || correlation_id, '-'), coalesce('=' || group_key, '-'),
        coalesce('=' || dedup_key, '-'), coalesce('=' || publisher, '-'),
        coalesce('=' || to_char(deliver_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                 '-'),
        coalesce(((extract(epoch from expires_at) * 1000000)::bigint)::text, '-'))), 8))
        ::bit(32)::bigint)
        from pgq.message where era = slot);
end
$$;

select throws_ok($$select pgq.archive_wait('-1 s')$$, '22023', null,
    'archive_wait refuses a negative wait');
select throws_ok($$select pgq.archive_wait('1000000 years')$$, '22023', null,
    'archive_wait refuses a wait of a million years');
select throws_ok($$select pgq.archive_begin('me', '11 years')$$, '22023', null,
    'archive_begin refuses a wait of 11 years');
-- Values that are out of range and already stored do not stop maintenance.
begin;
insert into pgq.archive (wait) values ('1000000 years');
update pgq.queue set retention = '1000000 years';
insert into pgq.era (slot, number, started_at) values (2, -1, now() - interval '1 day'),
    (0, 0, now()) on conflict do nothing;
select lives_ok('select pgq._maintain()',
    'maintenance works with stored intervals that are out of range');
select lives_ok('select * from pgq.metrics()',
    'metrics() works with stored intervals that are out of range');
update pgq.queue set retention = '-1000000 years 370000000 days';
select lives_ok('select pgq._maintain()',
    'maintenance works with a stored interval that has negative parts');
rollback;
select pgq.archive_wait('1 day');
select pgq.archive_wait('2 h');
select results_eq('select wait from pgq.archive', $$values (interval '2 h')$$,
    'a second archive_wait replaces the first');
select pgq.publish('work', '1', reply_to => 'me');
select pgq.publish_batch('work', '{2,3}');
call pgq.maintain();
select is_empty('select from pgq.archive_next()', 'archive_next does not return the current era');
select pgq.ack(lease_id) from pgq.claim('work', n => 2) limit 1;
select t.advance('61 min');
call pgq.maintain();
select results_eq('select era, slot, messages, high - low from pgq.archive_next()',
    'values (0::bigint, 0, 2::bigint, 1::bigint)',
    'archive_next returns a closed era with its finished messages');
select is(t.peek('work'), '3', 'an unfinished message is still in the queue');
select is((select era from pgq.message where payload = '3'), 1::smallint,
    'an unfinished message is in the next era');
select throws_ok(format('select pgq.archived(0, 2, %s)', pg_temp.checksum(0) + 1), 'XX001', null,
    'a copy with another checksum is refused');
select results_eq('select era, messages from pgq.archive_next()', 'values (0::bigint, 2::bigint)',
    'archive_next returns the same era until its copy is confirmed');
select results_eq('select unused from pgq.archive_next()',
    $$values ('{sender,recipient,correlation_id,group_key,expires_at,dedup_key,deliver_at,
                publisher}'::text[])$$,
    'archive_next names the columns that no message uses');
select t.advance('62 min');
call pgq.maintain();
select is((select count(*) from pgq.message_0), 2::bigint,
    'an era is not emptied before its copy is confirmed');

select throws_ok(format('select pgq.archived(0, 1, %s)', pg_temp.checksum(0)), 'XX001', null,
    'a copy with too few messages is refused');
select throws_ok('select pgq.archived(0, 2, 1)', 'XX001', null,
    'a copy with a wrong checksum is refused');
select throws_ok('select pgq.archived(0, 2, null)', 'XX001', null,
    'a copy without a checksum is refused');
select throws_ok('select pgq.archived(2, 1, 1)', '55000', null,
    'a copy of the current era is refused');
select throws_ok('select pgq.archived(9, 1, 1)', '55000', null,
    'a copy of an unknown era is refused');
-- one archiver at a time, and only the last attempt of an era
select is((select attempt from pgq.archive_copy where era = 0), 3,
    'the attempts to copy an era are counted');
select throws_ok(format('select pgq.archived(0, 2, %s, 2)', pg_temp.checksum(0)), '55000', null,
    'the copy of an earlier attempt is refused');
select pgq.archive_begin('one', '2 h', '30 s');
select pgq.archive_begin('one', '2 h', '30 s');
select throws_ok($$select pgq.archive_begin('two', '2 h')$$, '55006', null,
    'a second archiver is refused');
select throws_ok('select pgq.archive_next()', '55006', null,
    'archive_next without an owner is refused while there is an owner');
select throws_ok($$select pgq.archive_begin('one', null)$$, '22023', null,
    'archive_begin refuses a wait of null');
select throws_ok($$select pgq.archive_begin('one', '-1 s')$$, '22023', null,
    'archive_begin refuses a negative wait');
select is(pgq.archive_end('two'), false,
    'archive_end returns false for an archiver that is not the owner');
select t.advance('31 s');
select lives_ok($$select pgq.archive_begin('two', '2 h')$$,
    'another archiver can begin when the owner is silent');
select throws_ok($$select pgq.archive_next('one')$$, '55006', null,
    'the previous owner gets no era');
select is((select attempt from pgq.archive_next('two')), 4, 'the new owner begins a new attempt');
select is(pgq.archive_end('two'), true, 'the owner can end its ownership');
select results_eq('select wait, owner from pgq.archive', $$values (interval '2 h', null::text)$$,
    'eras still wait for their copies after the owner has ended');
begin;
insert into pgq.message_0 (era, id, topic, payload, published_at, publisher)
select 0, id + 1000, topic, payload, published_at, publisher from pgq.message_0 limit 1;
select throws_ok(
    format('select pgq.archived(0, 2, %s)', (select checksum from pgq.era where slot = 0)),
    'XX001', null, 'a copy without messages that were added to the era later is refused');
rollback;
select lives_ok($$select pgq.archived(0, 2, pg_temp.checksum(0), 4)$$,
    'the right copy is confirmed');
select is((select archived_at from pgq.era where number = 0), pgq.now(),
    'pgq.era stores when the era was archived');
select t.advance('11 s');
call pgq.maintain();
select is((select count(*) from pgq.message_0), 0::bigint, 'an archived era is emptied');

-- the wait is bounded
select pgq.publish('work', '4');
select pgq.ack(lease_id) from pgq.claim('work', n => 9) limit 1;
select t.advance('61 min');
call pgq.maintain();
select throws_ok($$select pgq.archived(1, 1, 1)$$, 'XX001', null,
    'a copy of an era that archive_next has not returned is refused');
select t.advance('11 s');
call pgq.maintain();
select t.advance('61 min');
call pgq.maintain();
select cmp_ok((select count(*) from pgq.message), '=', 2::bigint,
    'the messages of an era without a copy stay during the wait');
select t.advance('121 min');
call pgq.maintain();
select cmp_ok((select count(*) from pgq.message), '<', 2::bigint,
    'an era without a copy is emptied after the wait');
select throws_ok($$select pgq.archived(1, 1, 1)$$, '55000', null,
    'a copy of an emptied era is refused');
select pgq.archive_wait(null);
select is_empty('select from pgq.archive', 'archive_wait(null) turns the wait off');
select is((select archived_at from pgq.era where slot = 0 and number > 0), null,
    'the next era in the slot is not marked as archived');
select is_empty($$select * from pgq.check()$$, 'nothing is broken');
update pgq.era set archived_at = now() where number = (select max(number) from pgq.era);
insert into pgq.archive values ('1 h'), ('1 h');
select set_eq('select problem from pgq.check()',
    array['the current era is archived', 'there is more than one archive'],
    'pgq.check() finds an archived current era and a second archive');
-- a function that is not inlined would take as long as the rest of the checksum
create function pg_temp.plan_of(statement text) returns text language plpgsql as $$
declare
    v_line text;
    v_plan text := '';
begin
    for v_line in execute 'explain (verbose, costs off) ' || statement loop
        v_plan := v_plan || v_line;
    end loop;
    return v_plan;
end
$$;
select unalike(pg_temp.plan_of('select sum(pgq._checksum(m)) from pgq.message m'), '%pgq.\_%(%',
    'the checksum is inlined, with all that it calls');

select * from finish();
