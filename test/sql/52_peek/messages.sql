-- Lists of messages by state.
begin;
select no_plan();

create function t.list(state text, filter jsonb default null, n int default 50) returns text
language plpgsql as $$
begin
    return (select string_agg(p.payload #>> '{}', ' ' order by p.i)
            from (select m.payload, row_number() over () as i
                  from pgq.messages('q', list.state, list.filter, list.n) m) p);
end
$$;

select t.at('2030-01-01 12:00+00');
select pgq.create_queue('q');
select pgq.create_queue('other');
select pgq.publish('other', '"x"', delay => '1 min');
select pgq.publish('q', to_jsonb(i), jsonb_build_object('n', i), delay =>
                   (10 - i) * interval '1 h') from generate_series(1, 3) i;
select pgq.publish('q', to_jsonb('g' || i), group_key => 'g') from generate_series(1, 3) i;
select pgq.publish('q', '"r1"', '{"kind": "now"}', correlation_id => 'c-1');
select pgq.publish('q', '"r2"');
select t.take('q');
select pgq.bury((select lease_id from pgq.claim('q')), error => 'no');

select is(t.list('ready'), 'r2', 'ready messages are listed in the order of delivery');
select is(t.list('scheduled'), '3 2 1',
    'scheduled messages are listed in the order of their due times');
select is(t.list('leased'), 'g1', 'leased messages are listed');
select is(t.list('waiting'), 'g2 g3',
    'messages that wait behind the head of a group are listed in the order of the group');
select is(t.list('dead'), 'r1', 'dead letters are listed');
select is(t.list('scheduled', n => 2), '3 2', 'at most n messages are listed');
select is(t.list('scheduled', '{"n": {"$lt": 3}}'), '2 1',
    'a filter selects the scheduled messages that match');
select is(t.list('dead', '{"msg.correlation_id": "c-1"}'), 'r1',
    'a filter selects the dead letters that match');
select is(t.list('waiting', '{"n": 1}'), null, 'the list is empty if no message matches');
select results_eq(
    $$select lease_until from pgq.messages('q', 'scheduled', n => 1)$$,
    $$values (timestamptz '2030-01-01 19:00+00')$$, 'a scheduled message says when it is due');
select results_eq(
    $$select m.lease_id = l.lease_id, m.attempt, m.lease_until = l.until
      from pgq.messages('q', 'leased') m, pgq.leases l$$,
    $$values (true, 1, true)$$,
    'a leased message shows its lease id, its attempt and the end of the lease');
select throws_ok($$select pgq.messages('q', 'lost')$$, '22023', 'a message cannot be "lost"');
select throws_ok($$select pgq.messages('q', n => 0)$$, '22023',
                 'n must be between 1 and 10000, not 0');
select throws_ok($$select pgq.messages('q', 'dead', '{"a": {"$x": 1}}')$$, 'QU004');

select * from finish();
rollback;
