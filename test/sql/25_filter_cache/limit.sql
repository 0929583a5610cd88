-- A queue that has used all the filters it may keep takes nothing from the others.
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

select is(t.take('mine', '{"n": 2}'), '2', 'a queue at its limit claims by another filter');
select is(t.kept('mine'), pgq._limit('filters')::bigint, 'which is not kept');
select is(t.take('theirs', '{"n": 2}'), '2', 'another queue claims by it');
select is(t.kept('theirs'), 1::bigint, 'and keeps it');
select is(t.take('theirs', '{"n": 3}'), '3', 'and the next one');
select is(t.kept('theirs'), 2::bigint, 'too');
select * from finish();
rollback;
