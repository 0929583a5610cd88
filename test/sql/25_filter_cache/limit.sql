-- A queue whose filter cache is full does not affect other queues.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('mine'), pgq.create_queue('theirs');
select pgq.publish(queue, to_jsonb(i), jsonb_build_object('n', i))
from unnest('{mine,theirs}'::text[]) queue, generate_series(1, 3) i;
insert into pgq.filter (queue_id, hash, document, scope, path, lane_final)
select q.queue_id, i, jsonb_build_object('other', i), f.scope, f.path, false
from pgq.queue q, pgq._find_filter('{"other": 0}', null) f,
     generate_series(1, pgq._limit('filters')) i
where q.name = 'mine';
create function t.kept(queue text) returns bigint language sql
return (select count(*) from pgq.filter f join pgq.queue q using (queue_id)
        where q.name = kept.queue);

select is(t.take('mine', '{"n": 2}'), '2',
    'a queue whose filter cache is full can claim with a new filter');
select is(t.kept('mine'), pgq._limit('filters')::bigint,
    'a full filter cache does not store the new filter');
select is(t.take('theirs', '{"n": 2}'), '2', 'another queue can claim with the same filter');
select is(t.kept('theirs'), 1::bigint, 'another queue stores the filter');
select is(t.take('theirs', '{"n": 3}'), '3', 'another queue can claim with a second filter');
select is(t.kept('theirs'), 2::bigint, 'another queue stores the second filter');
select * from finish();
rollback;
