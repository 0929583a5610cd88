-- A lease with ids that have no message raises an error: a message that was never delivered must
-- not be acknowledged.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work');
select min(id) as first from pgq.publish_batch('work', '{1,2,3}') b (id) \gset
select t.damage(format('delete from pgq.message where id = %s', :first + 1));
select throws_ok($$select * from pgq.claim('work', n => 3)$$, 'XX001', null,
    'a claim of messages that are not in the log fails');
select is((select count(*) from pgq.lease), 0::bigint, 'a failed claim takes nothing');
select matches(t.hint_of($$select * from pgq.claim('work', n => 3)$$), 'pgq.check',
    'the hint names pgq.check()');
select isnt_empty('select * from pgq.check()', 'pgq.check() finds the missing message');
select * from finish();
rollback;
