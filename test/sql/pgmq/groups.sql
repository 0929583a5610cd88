-- Reading by groups: header x-pgmq-group.
begin;
select no_plan();
create extension pgq_pgmq;
select t.at(now());

-- The numbers of the messages that a read returns.
create function pg_temp.read(mode text, qty int, vt int default 30) returns text
language plpgsql as $$
begin
    return (select string_agg(r.message #>> '{}', ' ' order by r.i) from (
        select x.message, row_number() over () as i
        from pgmq._read_grouped('fifo', vt, qty, mode) x) r);
end
$$;
create function pg_temp.fill() returns void language plpgsql as $$
begin
    perform pgmq.purge_queue('fifo');
    perform pgmq.send('fifo', to_jsonb(g || i), jsonb_build_object('x-pgmq-group', g))
    from (values (1, 'a'), (2, 'a'), (3, 'b'), (4, 'a'), (5, 'b'), (6, 'c')) v (i, g);
end
$$;
create function pg_temp.delete(payload text) returns boolean language plpgsql as $$
begin
    return pgmq.delete('fifo', (select msg_id from pgmq.q_fifo where message = to_jsonb(payload)));
end
$$;
select pgmq.create('fifo');

select pg_temp.fill();
select is(pg_temp.read('whole', 4), 'a1 a2 a4 b3',
    'a read takes the oldest group first, then the next');
select is(pg_temp.read('whole', 4), 'c6', 'groups that are being read are blocked');
select is((select string_agg(message #>> '{}', ' ') from pgmq.read('fifo', 30, 5)), 'b5',
    'a read without groups ignores them');
select pg_temp.fill();
select is(pg_temp.read('rr', 4), 'a1 b3 c6 a2',
    'a round-robin read takes one message of each group in turn');
select is(pg_temp.read('rr', 4), null, 'all groups are blocked');
select pg_temp.delete('a1'), pg_temp.delete('a2');
select is(pg_temp.read('rr', 4), 'a4',
    'a group continues when the messages that were read are deleted');
select pg_temp.fill();
select is(pg_temp.read('head', 10, 5), 'a1 b3 c6',
    'a head read takes the first message of each group');
select t.advance('6 s');
select is(pg_temp.read('head', 10), 'a1 b3 c6',
    'messages that were not deleted in time are read again');
select pg_temp.delete('b3');
select is(pg_temp.read('head', 10), 'b5',
    'the next message of a group follows when its head is deleted');
select pgmq.purge_queue('fifo');
select pgmq.send_batch('fifo', array['1', '2', '3']::jsonb[]);
select is(pg_temp.read('whole', 2), '1 2', 'messages without the header are one group');
select is(pg_temp.read('whole', 2), null,
    'the group of messages without the header is blocked while it is read');
select is((select count(*) from pgmq.read_grouped_with_poll('fifo', 1, 1, 0)), 0::bigint,
    'a poll of 0 seconds finds nothing in a blocked group');
select pgmq.purge_queue('fifo');
select pg_temp.fill();
select is((select count(*) from pgmq.read_grouped('fifo', 1, 1)), 1::bigint,
    'read_grouped returns a message');
select is((select count(*) from pgmq.read_grouped_rr('fifo', 1, 1)), 1::bigint,
    'read_grouped_rr returns a message');
select is((select count(*) from pgmq.read_grouped_head('fifo', 1, 1)), 1::bigint,
    'read_grouped_head returns a message');
select t.advance('2 s');
select is((select count(*) from pgmq.read_grouped_with_poll('fifo', 1, 1)), 1::bigint,
    'read_grouped_with_poll returns a message');
select is((select count(*) from pgmq.read_grouped_rr_with_poll('fifo', 1, 1)), 1::bigint,
    'read_grouped_rr_with_poll returns a message');
select is((select count(*) from pgmq.read_grouped_head_with_poll('fifo', 1, 1)), 1::bigint,
    'read_grouped_head_with_poll returns a message');
-- a lease of pgq that holds a run of a group, changed by message id
select pgmq.create('runs');
select pgq.publish('runs', to_jsonb(i), group_key => 'g') from generate_series(1, 5) i;
select min(id) as first from pgq.message where topic = 'runs' \gset
select is((select size from pgq.hold('runs', 'k', n => 4, runs => true)), 4::bigint,
    'four messages of a group are leased');
select is(pgmq.delete('runs', :first), true, 'the head of the group is deleted');
select is((select message_id from pgq.group_head), :first + 1::bigint,
    'the next message is the head');
select is(t.held('runs', 'leased') || ', ' || t.held('runs', 'waiting'), '2 3 4, 5',
    'the new head stays leased');
select pgmq.set_vt('runs', :first + 2, 0);
select is(t.held('runs', 'leased') || ', ' || t.held('runs', 'waiting'), '2, 3 4 5',
    'a message that is made visible waits for its turn, with those behind it');
select is_empty('select * from pgq.check()', 'queues and groups are sound');
select * from finish();
rollback;
