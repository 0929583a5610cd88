-- Producers suggest queues in the header "route"; queues that accept suggestions follow them.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('main', lane_keys => '{type}');
select pgq.create_queue('open', suggestions => true);
select pgq.create_queue('closed');
select pgq.create_queue('laned', suggestions => true, lane_keys => '{type}');
create function pg_temp.got(route jsonb, how text default 'publish') returns text
language plpgsql as $$
declare
    v_got text;
begin
    case how
        when 'publish' then
            perform pgq.publish('main', '"m"', jsonb_build_object('route', route, 'type', 'a'));
        when 'batch' then
            perform pgq.publish_batch('main', '{"\"m\"","\"n\""}'::jsonb[], array[
                jsonb_build_object('route', route, 'type', 'a'), '{"type": "b"}']);
    end case;
    select string_agg(s.queue, ' ' order by s.queue) into v_got
    from pgq.message_state s join pgq.message m using (id)
    where m.payload = '"m"' and s.state = 'ready';
    perform pgq.claim(q.name, n => 100) from pgq.queue q where q.mode = 'queue';
    perform pgq.ack(l.lease_id) from (select distinct lease_id from pgq.lease) l;
    return v_got;
end
$$;
create temp table suggestion (route jsonb, receivers text, why text);
insert into suggestion values
    ('"open"', 'main open', 'a queue that accepts suggestions'),
    ('"closed"', 'main', 'a queue that does not accept suggestions'),
    ('"open,laned,closed"', 'laned main open', 'several queues'),
    ('"open, laned"', 'laned main open', 'several queues, separated by a comma and a space'),
    ('"open,open,open"', 'main open', 'the same queue three times'),
    ('"main"', 'main', 'the queue that receives the topic'),
    ('"nowhere"', 'main', 'an unknown queue'),
    ('""', 'main', 'an empty string'), ('","', 'main', 'a comma'), ('null', 'main', 'null'),
    ('7', 'main', 'a number'), ('true', 'main', 'a boolean'),
    ('"OPEN"', 'main', 'a queue in another letter case'), ('"open.#"', 'main', 'a pattern'),
    ('"#"', 'main', 'the pattern of all topics'), ('"op%"', 'main', 'a pattern of LIKE'),
    ($$"'; drop table pgq.message; --"$$, 'main', 'an SQL injection'),
    ('"1,2,3,4,5,6,7,open"', 'main open', 'a list with a queue at position 8'),
    ('"1,2,3,4,5,6,7,8,open"', 'main', 'a list with a queue at position 9'),
    (to_jsonb(repeat('x', 100000)), 'main', 'a very long name'),
    (to_jsonb(repeat('x', 3000) || ',open'), 'main', 'a queue after a very long name'),
    (to_jsonb(repeat('x,', 100000)), 'main', 'a very long list');
select is(pg_temp.got(route, how), receivers, format('by %s, the header route is %s', how, why))
from suggestion, unnest('{publish,batch}'::text[]) how;
select throws_ok($$select pgq.publish('main', '1', '{"route": ["open"]}')$$, '22023', null,
    'the header route must be a scalar');
select throws_ok($$select pgq.publish('unheard', '1', '{"route": "open"}')$$, 'QU005', null,
    'a topic that no queue receives is refused even with a header route');

-- a queue that receives by a binding and by suggestion
select pgq.subscribe('open', 'main', '{"type": "a"}');
select is(pg_temp.got('"open"', how), 'main open',
    'a queue with a binding and a suggestion gets a message once, by ' || how)
from unnest('{publish,batch}'::text[]) how;
select pgq.unsubscribe('open', 'main');
select is_empty('select * from pgq.check()',
    'no queue holds a message twice, and nothing is broken');

-- with everything else that a message can have
select pgq.publish('main', '"x"', '{"route": "laned", "type": "a"}', priority => 5,
    expires_in => '1 h');
select pgq.publish('main', '"y"', '{"route": "laned", "type": "b"}');
select is(t.take('laned', '{"type": "b"}', 9), 'y', 'a suggested message is in its lane');
select is((select array[priority::text, (expires_at = pgq.now() + interval '1 h')::text]
           from pgq.claim('laned')), '{5,true}',
    'a suggested message has its priority and its expiry');
select pgq.publish('main', '"d"', '{"route": "open"}', delay => '10 s');
select is(t.held('open', 'delayed'), 'd', 'a suggested message can be delayed');
select t.advance('10 s');
select is(t.take('open', n => 9), 'd', 'a delayed suggested message is delivered when it is due');
select pgq.publish('main', '"g1"', '{"route": "open"}', group_key => 'g'),
       pgq.publish('main', '"g2"', '{"route": "open"}', group_key => 'g');
select is(t.held('open', 'ready') || '/' || t.held('open', 'waiting'), 'g1/g2',
    'a group keeps its order in a suggested queue');
select pgq.publish('main', '"k1"', '{"route": "open"}', dedup_key => 'k');
insert into pgq.message (topic, payload, headers, dedup_key) values
    ('main', '"k2"', '{"route": "open"}', 'k'), ('main', '"k3"', '{"route": "open"}', 'k3'),
    ('main', '"k4"', '{"route": "open"}', 'k3');
insert into pgq.message (topic, payload, headers, deliver_at) values
    ('main', '"s"', '{"route": "open"}', 'infinity');
insert into pgq.message (topic, payload, headers, deliver_at) values
    ('main', '"s"', '{"route": "open"}', 'infinity'), ('main', '"n"', '{"route": "open"}', null);
select is(t.held('open', 'ready'), 'g1 k1 k3 n',
    'a suggested queue does not get duplicates and messages that are only stored');
select pgq.create_queue('attic', mode => 'archive', suggestions => true);
select lives_ok($$select pgq.publish('main', '"x"', '{"route": "attic"}')$$,
    'a header route may name an archive');
select is_empty($$select 1 from pgq.message_state where queue = 'attic'$$,
    'an archive that is suggested has nothing to deliver');

-- opting in and out
select pgq.alter_queue('closed', suggestions => true);
select is(pg_temp.got('"closed"'), 'closed main', 'a queue can begin to accept suggestions');
select pgq.alter_queue('closed', suggestions => false);
select is(pg_temp.got('"closed"'), 'main', 'a queue can stop accepting suggestions');

-- order of suggested messages
select pgq.publish('open', '"o1"'), pgq.publish('main', '"o2"', '{"route": "open"}'),
       pgq.publish('open', '"o3"');
select is(t.take('open', '{"msg.group_key": null}', n => 9), 'o1 o2 o3',
    'suggested and other messages are delivered in the order of publication');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
