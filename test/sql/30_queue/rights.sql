-- Rights to queues: granted, inherited, revoked, removed by maintenance.
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
select is(pgq.grant_queue('one', 'rights_a', 'publish'), false,
    'granting a right again changes nothing');
select results_eq(
    $$select queue, role::text collate "default", "right" from pgq.rights$$,
    $$values ('one', 'rights_a', 'publish')$$, 'the view rights lists a granted right');
select throws_ok($$select pgq.grant_queue('none', 'rights_a', 'publish')$$, 'QU001', null,
    'a right to a queue that does not exist is refused');
select throws_ok($$select pgq.grant_queue('one', 'rights_missing', 'publish')$$, '42704', null,
    'a right for a role that does not exist is refused');
select throws_ok($$select pgq.grant_queue('one', 'public', 'publish')$$, '42704', null,
    'a right for PUBLIC is refused');
select throws_ok($$select pgq.grant_queue('one', 'rights_a', 'read')$$, '22023', null,
    'an unknown right is refused');
select throws_ok($$select pgq.grant_queue('one', 'rights_a', null)$$, '22023', null,
    'granting a null right is refused');
select throws_ok($$select pgq.grant_queue('one', null, 'publish')$$, '42704', null,
    'granting a right to a null role is refused');
select throws_ok($$select pgq.revoke_queue('none', 'rights_a', 'publish')$$, 'QU001', null,
    'revoking a right to a queue that does not exist is an error');
select throws_ok($$select pgq.revoke_queue('one', 'rights_missing', 'publish')$$, '42704', null,
    'revoking a right of a role that does not exist is an error');
select throws_ok($$select pgq.revoke_queue('one', 'rights_a', 'all')$$, '22023', null,
    'revoking an unknown right is an error');
select is(pgq.grant_queue('one', 'rights; drop "x"', 'publish'), true,
    'a right can be granted to a role whose name needs quotes');
select is(t.outcome('rights; drop "x"', $$select pgq.publish('one', '1')$$), 'ok',
    'a role whose name needs quotes can use its right');
select is(pgq.revoke_queue('one', 'rights; drop "x"', 'publish'), true,
    'a right can be revoked from a role whose name needs quotes');

-- by membership
select is(t.outcome('rights_member', $$select pgq.claim('one')$$), '42501',
    'a member of a group without rights has no rights');
select pgq.grant_queue('one', 'rights_group', 'consume');
select is(t.outcome('rights_member', $$select pgq.claim('one')$$), 'ok',
    'a member has the rights of its group');
select is(t.outcome('rights_outsider', $$select pgq.claim('one')$$), '42501',
    'a member that does not inherit has no rights of its group');
select is(
    t.outcome('rights_outsider', 'set local role rights_group; select pgq.claim(''one'')',
        'session_authorization'), 'ok',
    'a member that does not inherit has the rights of its group after SET ROLE');
grant rights_outsider to rights_member;
select is(
    t.outcome('rights_member', 'set local role rights_outsider; select pgq.claim(''one'')',
        'session_authorization'), '42501',
    'after SET ROLE to a role with fewer rights, a session has only these');
do $$ begin
    execute format('create role rights_deputy in role %I', current_user);
end $$;
select is(t.outcome('rights_deputy', $$select pgq.claim('two')$$), 'ok',
    'a member of the owner''s role can claim without a granted right');

-- the publisher of a message, by function and by INSERT
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
    'publisher is the role that published the message, whatever its sender; null for the owner');

-- A reply by the owner goes only to a topic that the requesting role could publish to.
select pgq.create_queue('payments');
select t.answer('rights_a', $$select pgq.publish('one', '"q"', reply_to => 'payments')$$)
    as asked \gset
select throws_ok(format('select pgq.reply(%s, ''1'')', :asked), '42501', null,
    'a reply to a topic that the requesting role may not publish to is refused');
select is_empty($$select from pgq.message where topic = 'payments'$$,
    'a refused reply is not published');
select t.answer('rights_a', $$select pgq.publish('one', '"q"', reply_to => 'one')$$) as asked \gset
select isnt(pgq.reply(:asked, '1'), null,
    'a reply to a topic that the requesting role may publish to is published');
select pgq.publish('one', '"q"', reply_to => 'payments') as asked \gset
select isnt(pgq.reply(:asked, '1'), null, 'the owner may request a reply to any topic');

-- Each role has its own handlers, whatever their names.
create role billing;
select pgq.grant_queue('one', 'billing', 'consume');
select is(t.answer('billing', $$select pgq.seen('charge', 1)$$), 'false',
    'the handler of a role has not seen a new message');
select is(pgq.seen('billing:charge', 1), false,
    'a handler of the owner has not seen what the handler of a role has seen');
select is(t.answer('billing', $$select pgq.seen('charge', 1)$$), 'true',
    'the handler of a role has seen its message');

-- row types
select is(t.outcome('rights_a', format('create temp table stolen (c pgq.%s)', x)), '42501',
    format('no role can make a column of the type pgq.%s', x))
from unnest('{queue,message,ready,dead_letter,rights}'::text[]) x;

-- A role cannot choose the value of the parameter caller.
select is(
    t.outcome('rights_a', format('select pgq.publish(''two'', ''1'', caller => %L)', current_user)),
    '23514', 'a role cannot pass another role as caller');
select is(t.outcome('rights_a', $$select pgq.publish('two', '1', caller => null)$$), '23502',
    'a role cannot pass null as caller');
select is(t.outcome('rights_a', $$select pgq.publish('two', '1', caller => (
    select b.c from (values (1)) a (i) left join (
        select 1 as i, null::name::pgq.caller as c where false) b on b.i = a.i))$$), '42501',
    'a null caller is refused even where PostgreSQL does not check the domain');
select is(t.outcome('rights_a', $$select pgq.publish('one', '1', caller => 'rights_a')$$), 'ok',
    'a role can pass itself as caller');
select is(t.outcome('rights_a', 'create temp table stolen (c pgq.caller)'), '42501',
    'a role cannot store a caller in a table');

-- A SECURITY DEFINER function publishes with the rights of its owner, whoever calls it.
create schema rights_app;
create function rights_app.send(topic text) returns bigint language sql security definer
set search_path = pg_catalog, pg_temp as $$select pgq.publish(topic, '1')$$;
alter function rights_app.send(text) owner to rights_a;
grant usage on schema rights_app to public;
select is(t.outcome('rights_outsider', $$select rights_app.send('one')$$), 'ok',
    'a SECURITY DEFINER function can publish for a role without rights');
select is(t.outcome('rights_outsider', $$select rights_app.send('two')$$), '42501',
    'a SECURITY DEFINER function cannot publish where its owner may not');
select is(t.outcome(current_user, $$select rights_app.send('two')$$), '42501',
    'a SECURITY DEFINER function gets no rights from a superuser who calls it');

-- A superuser's ANALYZE runs index expressions as the owner of the table, without more rights.
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
    'a superuser who analyzes a table gives its owner no rights');

-- the view leased_message
select pgq.publish(q, '1') from unnest('{one,two}'::text[]) q;
select pgq.hold('two', 'theirs');
select pgq.hold('one', 'mine');
select is(
    t.answer('rights_a', $$select string_agg(distinct topic, ',') from pgq.leased_message$$), 'one',
    'a consumer reads leases of its own queues only');

-- privileges follow rights
select is(t.outcome('rights_a', 'select * from pgq.queue_stats'), 'ok', 'consumers see statistics');
select is(pgq.revoke_queue('one', 'rights_a', 'consume'), true, 'a right is revoked');
select is(pgq.revoke_queue('one', 'rights_a', 'consume'), false,
    'revoking a right again changes nothing');
select is(t.outcome('rights_a', 'select * from pgq.queue_stats'), '42501',
    'statistics are closed to a role that has lost the right to consume');
select is(t.outcome('rights_a', $$select pgq.publish('one', '1')$$), 'ok',
    'a role that has lost the right to consume can still publish');
select is(t.outcome('rights_a', $$select pgq.version()$$), 'ok',
    'a role with the right to publish can call version()');
select pgq.revoke_queue('one', 'rights_a', 'publish');
select is(t.outcome('rights_a', $$select pgq.version()$$), '42501',
    'a role that has lost its last right cannot call version()');
select lives_ok('drop function rights_app.send(text)',
    'the function of a role without rights can be dropped');
select is_empty(
    $$select classid::regclass, objid from pg_shdepend
      where refobjid = 'rights_a'::regrole and deptype = 'a'
        and classid in ('pg_proc'::regclass, 'pg_namespace'::regclass)
        and objid <> 'rights_app'::regnamespace$$,
    'a role without rights has no privilege in pgq that would prevent DROP ROLE');

-- dropped queues and roles
select pgq.grant_queue('two', 'rights_a', 'admin');
select is(t.answer('rights_a', $$select pgq.drop_queue('two', force => true)$$), 'true',
    'an administrator can drop the queue');
select is_empty($$select from pgq.rights where role = 'rights_a'$$,
    'the view rights does not list rights to a dropped queue');
select is_empty('select from pgq.check()', 'check() does not report rights to a dropped queue');
call pgq.maintain();
select is_empty($$select from pgq.queue_right where role = 'rights_a'::regrole$$,
    'maintenance removes the rights to a dropped queue');
select is(has_schema_privilege('rights_a', 'pgq', 'usage'), false,
    'maintenance revokes the privileges of a role without rights');

create role rights_b;
select pgq.grant_queue('one', 'rights_b', 'consume');
drop owned by rights_b;
drop role rights_b;
create role rights_b;
select is_empty($$select from pgq.rights where role::text = 'rights_b'$$,
    'the view rights does not list rights of a dropped role');
select isnt_empty('select from pgq.check()', 'check() reports a right of a dropped role');
select pgq.grant_queue('one', 'rights_a', 'publish');
select is_empty('select from pgq.check()', 'the next grant removes the rights of dropped roles');
select is(t.outcome('rights_b', $$select pgq.claim('one')$$), '42501',
    'a new role with the name of a dropped role has no rights');
select pgq.grant_queue('one', 'rights_b', 'consume');
drop owned by rights_b;
call pgq.maintain();
select is_empty($$select from pgq.queue_right where role = 'rights_b'::regrole$$,
    'maintenance removes the rights of a role after DROP OWNED');

-- A subscription gives no role messages that it could not get before.
select pgq.create_queue('mine'), pgq.create_queue('theirs');
select pgq.subscribe('mine', 'shared.*');
select pgq.subscribe('mine', 'theirs', '{"tenant": "me"}');
select pgq.grant_queue('mine', 'rights_a', 'admin');
select pgq.grant_queue('theirs', 'rights_a', 'consume');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', '#')$$), '42501',
    'an administrator cannot subscribe to everything');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', 'shared.#')$$), '42501',
    'an administrator cannot subscribe to more than its queue receives');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', 'shared.x', '{"a": 1}')$$), 'ok',
    'an administrator can subscribe to a part of what its queue receives');
select is(t.outcome('rights_a', $$select pgq.subscribe('mine', 'theirs')$$), '42501',
    'the right to consume a topic is not enough to subscribe to it');
select is(t.outcome('rights_a', $$select pgq.alter_subscription('mine', 'theirs', null)$$), '42501',
    'an administrator cannot remove a filter that the owner has set');
select pgq.grant_queue('theirs', 'rights_a', 'admin');
select is(t.outcome('rights_a', $$select pgq.alter_subscription('mine', 'theirs', null)$$), 'ok',
    'an administrator of a queue that receives the whole topic can remove the filter');

-- If two leases had the same token, the rights to the queues of both would be checked.
select pgq.create_queue('foreign'), pgq.publish('foreign', '1'), pgq.publish('mine', '1');
select lease_id as held from pgq.claim('mine') \gset
select lease_id as other from pgq.claim('foreign') \gset
savepoint alone;
update pgq.lease set lease_id = :held, part = 1 where lease_id = :other;
select is(t.outcome('rights_a', format('select pgq.%s(%s)', f, :held)), 'QU003',
    f || ' needs the rights to all queues of a lease')
from unnest('{ack,nack,bury,extend,release,leased}'::text[]) f;
rollback to alone;
select is(t.outcome('rights_a', format('select pgq.ack(%s)', :held)), 'ok',
    'a role can acknowledge a lease of its own queue');
select is(t.outcome('rights_a', format('select pgq.ack(%s)', :other)), 'QU003',
    'a role cannot acknowledge a lease of a queue that it has no right to');

select * from finish();
rollback;
