-- One call of maintain() removes everything that has piled up, not only a first part. Not in one
-- transaction: inside a transaction maintain() does a single slice.
select no_plan();
select t.at(now());
select pgq.create_queue('busy', dedup_window => '1 s', on_expiry => 'discard');
select queue_id from pgq.queue where name = 'busy' \gset
select pgq.subscribe('ear', 'busy', '{"a": 1}');
insert into pgq.dedup (queue_id, topic, dedup_key, message_id, until)
select :queue_id, 'busy', 'k' || i, i, pgq.now() from generate_series(1, 120000) i;
insert into pgq.binding_hit (binding_id, matches, last_at)
select b.binding_id, 1, pgq.now() from pgq.binding b, generate_series(1, 120000) i
where b.pattern = 'busy' and b.counted;
insert into pgq.outcome (queue_id, event, reason, size)
select :queue_id, 'nack', null, 1 from generate_series(1, 120000) i;
insert into pgq.message (topic, payload, expires_at)
select 'busy', to_jsonb(i), pgq.now() + interval '1 s' from generate_series(1, 20000) i;
select t.advance('10 s');
call pgq.maintain();
select is((select count(*) from pgq.dedup), 0::bigint,
    'maintain() deletes all dedup keys after their window');
select is((select count(*) from pgq.binding_hit), 1::bigint,
    'maintain() merges the matches of a subscription into one row');
select is((select sum(matches) from pgq.binding_hit), 120000::numeric,
    'merging keeps the number of matches');
select cmp_ok((select count(*) from pgq.outcome), '<=', 2::bigint,
    'maintain() merges the outcomes of a queue');
select is((select count(*) from pgq.ready where queue_id = :queue_id), 0::bigint,
    'maintain() removes all expired messages');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
