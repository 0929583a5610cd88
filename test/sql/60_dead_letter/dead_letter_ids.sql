-- Dead letters are listed in the order of their end, from either side, by page.
begin;
select no_plan();
select pgq.create_queue('work');
select pgq.create_queue('other');
insert into pgq.letter (queue_id, message_id, reason, error, attempts, failures, failed_at, topic,
                        priority, headers, payload, published_at)
select q.queue_id, m.id, m.reason, 'error ' || m.id, 1, '[]', now() + m.seconds * interval '1 s',
       q.name, 0, jsonb_build_object('n', m.id), '"Oslo"', now()
from pgq.queue q
cross join (values (1, 'timeout', 30), (2, 'timeout', 10), (3, 'rejected', 20),
                   (4, 'rejected', 20), (5, 'timeout', 20)) m (id, reason, seconds)
where q.name = 'work' or m.id = 1
order by q.name, m.id;

-- The messages of dead letters, in the order of the ids.
create function pg_temp.messages(ids bigint[]) returns text language sql as $$
    select string_agg(d.message_id::text, ' ' order by i.position)
    from unnest(ids) with ordinality i (id, position)
    join pgq.dead_letter d on d.dead_letter_id = i.id
$$;

select is(pg_temp.messages(array(select pgq.dead_letter_ids('work'))), '2 3 4 5 1',
    'the oldest are first; of those that ended at the same time, the one with the smaller id');
select is(pg_temp.messages(array(select pgq.dead_letter_ids('work', newest => true))),
    '1 5 4 3 2', 'with newest, the newest are first');
select is(pg_temp.messages(array(select pgq.dead_letter_ids('other'))), '1',
    'only dead letters of the queue are listed');
select is(pg_temp.messages(array(select pgq.dead_letter_ids('work', n => 2))), '2 3',
    'at most n are listed');
select is(pg_temp.messages(array(select pgq.dead_letter_ids('work', n => null))), '2 3 4 5 1',
    'with n => null, all are listed');
select is(
    pg_temp.messages(array(
        select i from pgq.dead_letter d
        cross join lateral pgq.dead_letter_ids(
            'work', n => 2, newest => true, before => d.failed_at,
            before_id => d.dead_letter_id) i
        where d.queue = 'work' and d.message_id = 5)), '4 3',
    'a page begins after the last dead letter of the page before');
select is(
    pg_temp.messages(array(select pgq.dead_letter_ids('work', '{"n": {"$gt": 2}}', n => 2))),
    '3 4', 'a filter selects by the message, and n counts those that match');
select is(
    pg_temp.messages(array(
        select pgq.dead_letter_ids('work', cause => '{"reason": "timeout"}', newest => true))),
    '1 5 2', 'a cause selects by the end');
select is(
    pg_temp.messages(array(select pgq.dead_letter_ids('work', n => 1, search => 'ERROR 5'))), '5',
    'a text is found in the error, whatever its case');
select is(
    pg_temp.messages(array(select pgq.dead_letter_ids('work', n => 1, search => 'oslo'))), '2',
    'a text is found in the payload');
select throws_ok($$select pgq.dead_letter_ids('work', cause => '{"type": "x"}')$$, 'QU004',
    'a dead letter has no "type"', 'a cause has the fields of pgq.replay');
select throws_ok($$select pgq.dead_letter_ids('work', n => 0)$$, '22023',
    'n must be positive, not 0', 'n is positive');
select throws_ok($$select pgq.dead_letter_ids('none')$$, 'QU001', null,
    'a queue that does not exist');
select * from finish();
rollback;
