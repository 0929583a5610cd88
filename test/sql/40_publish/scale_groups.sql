-- The cost of many ordering groups, in rows read.
select no_plan();
select t.at(now());
-- a hundred thousand groups
select pgq.create_queue('groups', set_size => 1);
insert into pgq.message (topic, payload, group_key, deliver_at)  -- stored, and routed by hand
select 'groups', to_jsonb(i), 'g' || i % 100000, 'infinity' from generate_series(1, 101000) i;
insert into pgq.group_head (queue_id, group_key, message_id)
select q.queue_id, m.group_key, min(m.id) from pgq.queue q, pgq.message m
where m.topic = 'groups' group by 1, 2;
insert into pgq.group_line (queue_id, group_key, message_id)
select h.queue_id, h.group_key, m.id from pgq.group_head h join pgq.message m using (group_key)
where m.id <> h.message_id;
insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
select h.queue_id, pgq._rank(0, false, h.message_id), 0, 1, pg_current_xact_id(), true,
       int8multirange(int8range(h.message_id, h.message_id + 1))
from pgq.group_head h;
select is((select count(*) from pgq.group_head), 100000::bigint, 'there are 100000 groups');
select is((select count(*) from pgq.group_line), 1000::bigint,
    'there are 1000 messages that wait behind the heads of their groups');
create temp table taken (lease_id bigint);
select cmp_ok(t.cost('insert into taken select lease_id from pgq.claim(''groups'', n => 10)'),
    '<=', 200::bigint, 'a claim of ten messages reads at most 200 rows');
select is((select count(*) from taken), 10::bigint, 'a claim of ten messages gets ten messages');
select cmp_ok(t.cost('select pgq.ack((select max(lease_id) from taken))'), '<=', 200::bigint,
    'an ack that advances ten groups reads at most 200 rows');
select is((select count(*) from pgq.group_head h join pgq.message m on m.id = h.message_id
           where m.payload::int > 100000), 10::bigint, 'ten groups have a new head');
select is(t.cost('select pgq.claim(''groups'', n => 10)', '%', true), 0::bigint,
    'a claim does not scan any table sequentially');
select cmp_ok(t.cost('select pgq.publish(''groups'', ''1'', group_key => ''g5'')'), '<=',
    60::bigint, 'publishing to an existing group reads at most 60 rows');
select cmp_ok(t.cost('select pgq.publish(''groups'', ''1'', group_key => ''new'')'), '<=',
    60::bigint, 'publishing to a new group reads at most 60 rows');
truncate taken;
insert into taken select lease_id from pgq.claim('groups');
select cmp_ok(t.cost('select pgq.nack((select max(lease_id) from taken), delay => ''1 s'')'),
    '<=', 60::bigint, 'a nack reads at most 60 rows');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
