-- Rights to queues: granted, inherited, revoked, forgotten.
begin;
select no_plan();

create role rights_a;
create role rights_group;
create role rights_member in role rights_group;
create role rights_outsider noinherit in role rights_group;
create role "rights; drop ""x""";
select pgq.create_queue('one'), pgq.create_queue('two');

-- granting
select is(pgq.grant_queue('one', 'rights_a', 'publish'), true, 'a right is granted');
select is(pgq.grant_queue('one', 'rights_a', 'publish'), false, 'once');
select results_eq(
    $$select queue, role::text collate "default", "right" from pgq.rights$$,
    $$values ('one', 'rights_a', 'publish')$$, 'the view tells it');
select throws_ok($$select pgq.grant_queue('none', 'rights_a', 'publish')$$, 'QU001', null,
    'of a queue that does not exist there are no rights');
select throws_ok($$select pgq.grant_queue('one', 'rights_missing', 'publish')$$, '42704', null,
    'nor for a role that does not exist');
select throws_ok($$select pgq.grant_queue('one', 'public', 'publish')$$, '42704', null,
    'PUBLIC is no role');
select throws_ok($$select pgq.grant_queue('one', 'rights_a', 'read')$$, '22023', null,
    'an unknown right is refused');
select throws_ok($$select pgq.grant_queue('one', 'rights_a', null)$$, '22023', null,
    'and none at all');
select throws_ok($$select pgq.grant_queue('one', null, 'publish')$$, '42704', null,
    'and no role');
select throws_ok($$select pgq.revoke_queue('none', 'rights_a', 'publish')$$, 'QU001', null,
    'to revoke takes a queue');
select throws_ok($$select pgq.revoke_queue('one', 'rights_missing', 'publish')$$, '42704', null,
    'and a role');
select throws_ok($$select pgq.revoke_queue('one', 'rights_a', 'all')$$, '22023', null,
    'and a right');
select is(pgq.grant_queue('one', 'rights; drop "x"', 'publish'), true,
    'any name of a role will do');
select is(t.outcome('rights; drop "x"', $$select pgq.publish('one', '1')$$), 'ok',
    'and it can publish');
select is(pgq.revoke_queue('one', 'rights; drop "x"', 'publish'), true, 'and lose the right');

-- by membership
select is(t.outcome('rights_member', $$select pgq.claim('one')$$), '42501',
    'a member of a role without rights has none');
select pgq.grant_queue('one', 'rights_group', 'consume');
select is(t.outcome('rights_member', $$select pgq.claim('one')$$), 'ok',
    'a member has the rights of its group');
select is(t.outcome('rights_outsider', $$select pgq.claim('one')$$), '42501',
    'but not one that does not inherit');
select is(
    t.outcome('rights_outsider', 'set local role rights_group; select pgq.claim(''one'')',
        'session_authorization'), 'ok', 'unless it becomes the group by SET ROLE');
grant rights_outsider to rights_member;
select is(
    t.outcome('rights_member', 'set local role rights_outsider; select pgq.claim(''one'')',
        'session_authorization'), '42501', 'who steps down by SET ROLE has less');
do $$ begin
    execute format('create role rights_deputy in role %I', current_user);
end $$;
select is(t.outcome('rights_deputy', $$select pgq.claim('two')$$), 'ok',
    'members of the owner may do everything');

-- who has published, by function, INSERT and reply
select t.answer('rights_a', $$select pgq.publish('one', '"p"')$$);
select t.answer('rights_a', $$select pgq.publish_batch('one', '{"\"p\""}')$$);
set local role rights_a;
insert into pgq.message (topic, payload, sender) values ('one', '"p"', 'somebody else');
reset role;
select pgq.publish('one', '"o"');
select results_eq(
    $$select payload #>> '{}', publisher, count(*)::int from pgq.message
      where payload in ('"p"', '"o"') group by 1, 2 order by 1$$,
    $$values ('o', null, 1), ('p', 'rights_a', 3)$$,
    'a message says which role has published it, whoever calls itself its sender');

-- an answer by the owner carries nothing where the asking role could not send it
select pgq.create_queue('payments');
select t.answer('rights_a', $$select pgq.publish('one', '"q"', reply_to => 'payments')$$)
    as asked \gset
select throws_ok(format('select pgq.reply(%s, ''1'')', :asked), '42501', null,
    'a reply goes only where the role that asked may publish');
select is_empty($$select from pgq.message where topic = 'payments'$$, 'nothing is sent there');
select t.answer('rights_a', $$select pgq.publish('one', '"q"', reply_to => 'one')$$) as asked \gset
select isnt(pgq.reply(:asked, '1'), null, 'where it may, it goes');
select pgq.publish('one', '"q"', reply_to => 'payments') as asked \gset
select isnt(pgq.reply(:asked, '1'), null, 'the owner may ask for answers anywhere');

-- handlers of roles are their own, whatever they are called
create role billing;
select pgq.grant_queue('one', 'billing', 'consume');
select is(t.answer('billing', $$select pgq.seen('charge', 1)$$), 'false', 'a role has a handler');
select is(pgq.seen('billing:charge', 1), false, 'it marks nothing for a handler of the owner');
select is(t.answer('billing', $$select pgq.seen('charge', 1)$$), 'true', 'and knows its own');

-- row types
select is(t.outcome('rights_a', format('create temp table stolen (c pgq.%s)', x)), '42501',
    format('no role can make a column of the type pgq.%s', x))
from unnest('{queue,message,ready,dead_letter,rights}'::text[]) x;

-- the caller is not for the caller to say
select is(
    t.outcome('rights_a', format('select pgq.publish(''two'', ''1'', caller => %L)', current_user)),
    '23514', 'nobody can call in the name of another');
select is(t.outcome('rights_a', $$select pgq.publish('two', '1', caller => null)$$), '23502',
    'or of nobody');
select is(t.outcome('rights_a', $$select pgq.publish('two', '1', caller => (
    select b.c from (values (1)) a (i) left join (
        select 1 as i, null::name::pgq.caller as c where false) b on b.i = a.i))$$), '42501',
    'even where PostgreSQL lets a null pass');
select is(t.outcome('rights_a', $$select pgq.publish('one', '1', caller => 'rights_a')$$), 'ok',
    'only in its own');
select is(t.outcome('rights_a', 'create temp table stolen (c pgq.caller)'), '42501',
    'and cannot store a caller for later');

-- A function with its owner's rights publishes with those, whoever calls it.
create schema rights_app;
create function rights_app.send(topic text) returns bigint language sql security definer
set search_path = pg_catalog, pg_temp as $$select pgq.publish(topic, '1')$$;
alter function rights_app.send(text) owner to rights_a;
grant usage on schema rights_app to public;
select is(t.outcome('rights_outsider', $$select rights_app.send('one')$$), 'ok',
    'an application can publish for those who have no right themselves');
select is(t.outcome('rights_outsider', $$select rights_app.send('two')$$), '42501',
    'as far as its own rights reach');
select is(t.outcome(current_user, $$select rights_app.send('two')$$), '42501',
    'even if a superuser calls it');

-- What a superuser's ANALYZE runs in the name of a table's owner is not the superuser's.
select pgq.grant_queue('one', 'rights_a', 'consume');
select pgq.publish('two', '"secret"');
grant create on schema rights_app to rights_a;
set local role rights_a;
create table rights_app.loot (what text);
create function rights_app.steal() returns text language plpgsql volatile as $$
begin
    insert into rights_app.loot select payload #>> '{}' from pgq.peek('two');
    return 'stolen';
exception when insufficient_privilege then
    insert into rights_app.loot values ('refused');
    return 'refused';
end
$$;
create function rights_app.bait(i int) returns text language plpgsql immutable as $$
begin
    return rights_app.steal();
end
$$;
create table rights_app.trap (i int);
insert into rights_app.trap values (1);
create index on rights_app.trap (rights_app.bait(i));
delete from rights_app.loot;
reset role;
analyze rights_app.trap;
select results_eq('select distinct what from rights_app.loot', $$values ('refused')$$,
    'a superuser who analyzes a table lends its owner no rights');

-- what is leased, as a view
select pgq.publish(q, '1') from unnest('{one,two}'::text[]) q;
select pgq.hold('two', 'theirs');
select pgq.hold('one', 'mine');
select is(
    t.answer('rights_a', $$select string_agg(distinct topic, ',') from pgq.leased_message$$), 'one',
    'a consumer reads leases of its own queues only');

-- what the privileges follow
select is(t.outcome('rights_a', 'select * from pgq.queue_stats'), 'ok', 'consumers see statistics');
select is(pgq.revoke_queue('one', 'rights_a', 'consume'), true, 'a right is revoked');
select is(pgq.revoke_queue('one', 'rights_a', 'consume'), false, 'once');
select is(t.outcome('rights_a', 'select * from pgq.queue_stats'), '42501',
    'what only that right needed is gone');
select is(t.outcome('rights_a', $$select pgq.publish('one', '1')$$), 'ok', 'what is left works');
select is(t.outcome('rights_a', $$select pgq.version()$$), 'ok', 'with what it needs');
select pgq.revoke_queue('one', 'rights_a', 'publish');
select is(t.outcome('rights_a', $$select pgq.version()$$), '42501',
    'with the last right goes the last privilege');
select lives_ok('drop function rights_app.send(text)', 'nothing is left');
select is_empty(
    $$select classid::regclass, objid from pg_shdepend
      where refobjid = 'rights_a'::regrole and deptype = 'a'
        and classid in ('pg_proc'::regclass, 'pg_namespace'::regclass)
        and objid <> 'rights_app'::regnamespace$$,
    'not even something that would keep the role from being dropped');

-- queues and roles that go
select pgq.grant_queue('two', 'rights_a', 'admin');
select is(t.answer('rights_a', $$select pgq.drop_queue('two', force => true)$$), 'true',
    'an administrator can drop the queue');
select is_empty($$select from pgq.rights where role = 'rights_a'$$, 'its rights go with it');
select is_empty('select from pgq.check()', 'that is no defect');
call pgq.maintain();
select is_empty($$select from pgq.queue_right where role = 'rights_a'::regrole$$,
    'maintenance forgets them');
select is(has_schema_privilege('rights_a', 'pgq', 'usage'), false, 'and the privileges too');

create role rights_b;
select pgq.grant_queue('one', 'rights_b', 'consume');
drop owned by rights_b;
drop role rights_b;
create role rights_b;
select is_empty($$select from pgq.rights where role::text = 'rights_b'$$,
    'the rights of a dropped role are not shown');
select isnt_empty('select from pgq.check()', 'a right that is void is noticed');
select pgq.grant_queue('one', 'rights_a', 'publish');
select is_empty('select from pgq.check()', 'and swept by the next grant');
select is(t.outcome('rights_b', $$select pgq.claim('one')$$), '42501',
    'a later role of the same name inherits nothing');
select pgq.grant_queue('one', 'rights_b', 'consume');
drop owned by rights_b;
call pgq.maintain();
select is_empty($$select from pgq.queue_right where role = 'rights_b'::regrole$$,
    'what DROP OWNED has deprived of everything is swept by maintain');

-- subscriptions bring nobody what it could not have before
select pgq.create_queue('mine'), pgq.create_queue('theirs');
select pgq.subscribe('mine', 'shared.*');
select pgq.subscribe('mine', 'theirs', '{"tenant": "me"}');
select pgq.grant_queue('mine', 'rights_a', 'admin');
select pgq.grant_queue('theirs', 'rights_a', 'consume');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', '#')$$), '42501',
    'an administrator cannot subscribe to everything');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', 'shared.#')$$), '42501',
    'nor to more than it has');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', 'shared.x', '{"a": 1}')$$), 'ok',
    'but to a part of it');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', 'theirs')$$), '42501',
    'to consume a topic is not enough');
select is(t.outcome('rights_a', $$select pgq.alter_subscription('mine', 'theirs', null)$$), '42501',
    'a filter that the owner has set stays');
select pgq.grant_queue('theirs', 'rights_a', 'admin');
select is(t.outcome('rights_a', $$select pgq.alter_subscription('mine', 'theirs', null)$$), 'ok',
    'unless one administers a queue that has all of it');

-- rights are asked for every row of a token, if two leases had one after all
select pgq.create_queue('foreign'), pgq.publish('foreign', '1'), pgq.publish('mine', '1');
select lease_id as held from pgq.claim('mine') \gset
select lease_id as other from pgq.claim('foreign') \gset
savepoint alone;
update pgq.lease set lease_id = :held, part = 1 where lease_id = :other;
select is(t.outcome('rights_a', format('select pgq.%s(%s)', f, :held)), 'QU003',
    f || ' wants the right to all of a lease')
from unnest('{ack,nack,bury,extend,release,leased}'::text[]) f;
rollback to alone;
select is(t.outcome('rights_a', format('select pgq.ack(%s)', :held)), 'ok',
    'a lease of its own can be ended');
select is(t.outcome('rights_a', format('select pgq.ack(%s)', :other)), 'QU003',
    'another cannot');

select * from finish();
rollback;
