-- Frequent queries use an index.
begin;
select no_plan();
-- The tables are empty here: the test is only about the choice of an index.
set local enable_seqscan = off;
set local enable_sort = off;
create temp table question (question text, statement text, index_name text);
insert into question values
    ('the next messages of a queue',
     'select ids from pgq.ready where queue_id = 1 order by rank limit 9', 'ready_rank_idx'),
    ('the next messages of a lane',
     'select ids from pgq.ready where lane_id = 1 order by rank limit 9', 'ready_lane_idx'),
    ('expired messages', 'select ids from pgq.ready where expires_at <= now()',
     'ready_expires_idx'),
    ('due messages', 'select ids from pgq.scheduled where queue_id = 1 and due_at <= now()',
     'scheduled_due_idx'),
    ('the messages of a lease', 'select ids from pgq.lease where lease_id = 1', 'lease_id_idx'),
    ('expired leases', 'select ids from pgq.lease where lease_id < 1000', 'lease_id_idx'),
    ('the messages of a named claim',
     $$select ids from pgq.lease where queue_id = 1 and key = 'k'$$,
     'lease_key_idx'),
    ('the queues that receive a topic',
     $$select * from pgq.route where topic = 't' and version = 1$$,
     'route_topic_idx'),
    ('the queues that are subscribed to a topic',
     $$select queue_id from pgq.binding where pattern = 't' and regex is null$$,
     'binding_pattern_idx'),
    ('the subscriptions of a queue', 'select pattern from pgq.binding where queue_id = 1',
     'binding_queue_pattern_unique'),
    ('the replies to a request', $$select * from pgq.message where correlation_id = 'c'$$,
     'message_0_correlation_idx'),
    ('a message by its id', 'select * from pgq.message where id = 1', 'message_0_pkey'),
    ('the record that a handler has seen a message',
     $$select from pgq.handled where handler = 'h' and message_id = 1$$, 'handled_pkey'),
    ('the oldest record of a handler', $$select message_id from pgq.handled where handler = 'h'
      order by handled_id limit 1$$, 'handled_order_idx'),
    ('old records of all handlers', $$select from pgq.handled where handled_at < '2000-01-01'$$,
     'handled_at_idx'),
    ('the oldest dead letters of a queue', 'select message_id from pgq.dead_letter
      where queue_id = 1 order by failed_at limit 9', 'letter_failed_idx'),
    ('a dedup key', $$select from pgq.dedup where topic = 't' and dedup_key = 'k'$$,
     'dedup_pkey'),
    ('expired dedup keys', $$select from pgq.dedup where until < '2000-01-01'$$,
     'dedup_until_idx');

create function pg_temp.plan(statement text) returns text language plpgsql as $$
declare
    v_line text;
    v_plan text := '';
begin
    for v_line in execute 'explain (costs off) ' || statement loop
        v_plan := v_plan || v_line || E'\n';
    end loop;
    return v_plan;
end
$$;
select matches(pg_temp.plan(statement), '\m' || index_name || '\M',
    format('an index finds %s: %s', question, index_name))
from question;

select * from finish();
rollback;
