-- Messages that were published together and are claimed in smaller numbers are taken by a fast
-- path: a part of the row at the head is leased, and the rest goes back as one row.
begin;
select no_plan();
select t.at(now());
set local track_functions = 'all';

create function t.publish_some(first int, last int, priority int default 0) returns bigint
language sql begin atomic
    select count(*) from pgq.publish_batch(
        'work', array(select to_jsonb(i) from generate_series(first, last) i),
        priority => publish_some.priority);
end;
-- What a claim returns, and whether it needed _take_head.
create function t.taken(n int) returns text language plpgsql as $$
declare
    v_calls bigint := coalesce(pg_stat_get_xact_function_calls('pgq._take_head'::regproc), 0);
    v_taken text := t.take('work', n => taken.n);
begin
    return v_taken || case coalesce(pg_stat_get_xact_function_calls('pgq._take_head'::regproc), 0)
                      when v_calls then ' (at once)' else '' end;
end $$;
select pgq.create_queue('work', max_attempts => 9, backoff => '0');
select t.publish_some(1, 9);
select is(t.taken(2), '1 2 (at once)', 'the first claim uses the fast path');
select results_eq(
    'select r.size, r.attempt, r.ids::text from pgq.ready r',
    $$values (7, 0, format('{[%s,%s)}', currval('pgq.message_id') - 6,
                           currval('pgq.message_id') + 1))$$,
    'the rest of the set is one row');
select is(t.taken(3), '3 4 5 (at once)', 'the second claim uses the fast path');
select is(t.taken(3), '6 7 8 (at once)', 'the third claim uses the fast path');
select is(t.taken(3), '9', 'the general path takes a row that is smaller than the claim asks for');
select results_eq(
    'select l.size, l.attempt, l.part from pgq.lease l order by l.lease_id',
    'values (2, 1, 0), (3, 1, 0), (3, 1, 0), (1, 1, 0)', 'both paths write the same leases');
select is_empty('select * from pgq.ready', 'no ready row is left');
select is_empty('select * from pgq.check()', 'nothing is broken');

-- two rows: the second is smaller than the claim asks for
select t.publish_some(1, 6);
select t.publish_some(7, 8);
select is(t.taken(4), '1 2 3 4', 'a claim after the queue was emptied uses the general path');
select is(t.taken(4), '5 6 7 8', 'a claim takes the rest of one row and the next row');

-- higher priorities
select t.publish_some(1, 6);
select is(t.taken(2), '1 2', 'the first claim uses the general path');
select is(t.taken(1), '3 (at once)', 'the next claim uses the fast path');
select t.publish_some(10, 12, priority => 9);
select is(t.taken(2), '10 11', 'messages of higher priority are delivered first');
select is(t.taken(2), '12 4', 'a claim takes the rest of one priority and a message of the next');
select is(t.taken(2), '5 6', 'the next claim takes the rest');

-- redeliveries
select t.publish_some(1, 6);
select is(t.taken(6), '1 2 3 4 5 6', 'one claim takes all messages');
select pgq.nack(max(lease_id), error => 'later') from pgq.lease;
select is(t.taken(2), '1 2', 'a claim takes a part of the redeliveries');
select results_eq('select attempt, size from pgq.lease order by lease_id desc limit 1',
    'values (2, 2)', 'that part is at its second attempt');
select results_eq('select attempt, size from pgq.ready', 'values (1, 4)',
    'the rest keeps its attempt number');
select is(t.taken(2), '3 4', 'the next claim takes the next part');
select is((select attempt from pgq.lease order by lease_id desc limit 1), 2,
    'the next part is at its second attempt too');
select is((select failures is not null from pgq.lease order by lease_id desc limit 1), true,
    'the lease of a redelivery has the earlier failure');
select is(t.taken(2), '5 6', 'the last claim takes the last part');

-- messages that expire
select pgq.ack(l.lease_id) from (select distinct lease_id from pgq.lease) l;
select count(*) from pgq.publish_batch('work', '{"1","2","3","4"}', expires_in => '1 h');
select is(t.taken(1), '1', 'the first claim uses the general path');
select is(t.taken(1), '2 (at once)', 'the fast path takes a part of a set that will expire');
select t.advance('2 h');
select is(t.taken(1), null, 'the rest has expired');

-- messages of an expired lease stay suspect when a part of them is taken
select pgq.ack(l.lease_id) from (select distinct lease_id from pgq.lease) l;
select pgq.alter_queue('work', lease => '1 min');
select t.publish_some(1, 8);
select is(t.taken(8), '1 2 3 4 5 6 7 8', 'a worker takes all messages, and crashes');
select t.advance('2 min');
select is((select count(*)::int from pgq.claim('work')), 1, 'a claim takes one suspect message');
select is((select bool_and(r.suspect) from pgq.ready r), true, 'the rest is still suspect');
select is((select count(*)::int from pgq.claim('work')), 1,
    'the next claim takes another suspect message');
select is((select bool_and(r.suspect) from pgq.ready r), true,
    'the rest is suspect after the second claim too');
select is_empty('select * from pgq.check()', 'nothing is broken');

select * from finish();
rollback;
