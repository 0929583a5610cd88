-- Addressing: filters for senders and recipients, requests and their replies.
begin;
select no_plan();
select t.at(now());

-- targeted or broadcast
select is(pgq.addressed_to('service_a'),
    '{"$or": [{"msg.recipient": "service_a"}, {"msg.recipient": {"$isNull": true}}]}'::jsonb,
    'the filter for one recipient is a plain document');
select is(pgq.addressed_to(null), '{}'::jsonb, 'addressed_to(null) selects every message');
select pgq.create_queue('inbox');
select pgq.publish('inbox', '"a"', recipient => 'service_a'),
       pgq.publish('inbox', '"b"', recipient => 'service_b'),
       pgq.publish('inbox', '"all"');
select is(t.peek('inbox', pgq.addressed_to('service_a')), 'a all',
    'a service sees its own message and the broadcast');
select is(t.peek('inbox', pgq.addressed_to(null)), 'a b all',
    'addressed_to(null) shows the messages of all services');
select is(t.peek('inbox', pgq.addressed_to('service_c')), 'all',
    'a service without messages of its own sees the broadcast');
select is(t.take('inbox', pgq.addressed_to('service_b'), 10), 'b all',
    'a claim returns the service''s own message and the broadcast');
select is(t.take('inbox', pgq.addressed_to('service_a'), 10), 'a',
    'a claim leaves the messages of other services in the queue');
select pgq.subscribe('service_a', 'events.#', pgq.addressed_to('service_a'));
select pgq.subscribe('service_b', 'events.#', pgq.addressed_to('service_b'));
select pgq.subscribe('tricky', 'events.#', pgq.addressed_to($$x'; drop table "y"$$));
insert into pgq.message (topic, payload, recipient) values
    ('events.x', '"a"', 'service_a'), ('events.x', '"b"', 'service_b'), ('events.x', '"all"', null),
    ('events.x', '"t"', $$x'; drop table "y"$$);
select is(t.take('service_a', n => 10), 'a all',
    'a subscription receives its own messages and the broadcast');
select is(t.take('service_b', n => 10), 'b all',
    'another subscription receives its own messages and the broadcast');
select is(t.take('tricky', n => 10), 'all t', 'a recipient may have any name');

-- Tests from the document of SmartMessage: a message is stored, and its history is recorded.
select is(pgq.subscribe('handler', 'AlertMessage'), true, 'LifeCycle: a handler subscribes');
select pgq.publish('AlertMessage', '{"text": "fire"}', sender => 'sensor', recipient => 'station')
    as alert \gset
select results_eq(
    $$select sender, recipient, payload from pgq.message where topic = 'AlertMessage'$$,
    $$values ('sensor', 'station', '{"text": "fire"}'::jsonb)$$,
    'StoresMessage: the message is stored once, with from, to and payload');
select count(pgq.ack(lease_id)) from pgq.claim('handler');
select results_eq(
    format($$select event, at is not null from pgq.history(%s)
             where event in ('publish', 'ack') order by event desc$$, :alert),
    $$values ('publish', true), ('ack', true)$$,
    'LifeCycle: the history has the times of publish and ack');

-- lists of senders and recipients: the truth table
create temp table mail (who text, sender text, recipient text);
insert into mail values ('a1', 'alice', 'one'), ('a2', 'alice', 'two'), ('a*', 'alice', null),
    ('b1', 'bob', 'one'), ('b2', 'bob', 'two'), ('b*', 'bob', null), ('?1', null, 'one'),
    ('?*', null, null);
create function pg_temp.passes(filter jsonb) returns text language sql as $$
    select string_agg(who, ' ' order by who collate "C") from mail
    where pgq.matches(filter, '{}', '{}', sender => mail.sender, recipient => mail.recipient) $$;
select is(pg_temp.passes(f), expected, 'entity_filter selects ' || what) from (values
    (pgq.entity_filter(), '?* ?1 a* a1 a2 b* b1 b2', 'all messages by default'),
    (pgq.entity_filter(from_filter => '{alice}'), 'a* a1 a2', 'messages from one sender'),
    (pgq.entity_filter(from_filter => '{alice,bob}'), 'a* a1 a2 b* b1 b2',
     'messages from any sender of a list'),
    (pgq.entity_filter(from_filter => '{nobody}'), null, 'nothing from an unknown sender'),
    (pgq.entity_filter(to_filter => '{one}'), '?1 a1 b1',
     'messages to one recipient, without the broadcast'),
    (pgq.entity_filter(to_filter => '{one,two}'), '?1 a1 a2 b1 b2',
     'messages to any recipient of a list'),
    (pgq.entity_filter(broadcast_filter => true), '?* a* b*', 'the broadcast alone'),
    (pgq.entity_filter(broadcast_filter => false), '?1 a1 a2 b1 b2',
     'all messages but the broadcast'),
    (pgq.entity_filter(to_filter => '{one}', broadcast_filter => true), '?* ?1 a* a1 b* b1',
     'messages to a recipient, and the broadcast'),
    (pgq.entity_filter(to_filter => '{one}', broadcast_filter => false), '?1 a1 b1',
     'messages to a recipient, if the broadcast is excluded'),
    (pgq.entity_filter('{alice}', '{one}'), 'a1', 'messages from a sender to a recipient'),
    (pgq.entity_filter('{alice}', '{one}', true), 'a* a1',
     'messages from a sender to a recipient or to all'),
    (pgq.entity_filter('{alice}', null, true), 'a*', 'the broadcast of one sender'),
    (pgq.entity_filter('{alice}', null, false), 'a1 a2',
     'messages of one sender without the broadcast'),
    (pgq.entity_filter('{alice}'), 'a* a1 a2', 'messages of one sender to anybody'),
    (pgq.entity_filter('{^ali,b$}', null, null, '{regex,regex}'), 'a* a1 a2 b* b1 b2',
     'senders by regular expressions'),
    (pgq.entity_filter('{^a.*e$,bob}', null, null, '{regex,exact}'), 'a* a1 a2 b* b1 b2',
     'senders by a regular expression or an exact name'),
    (pgq.entity_filter('{^a.*e$,bo.}', null, null, '{regex,exact}'), 'a* a1 a2',
     'senders by an exact name literally, not as a regular expression'),
    (pgq.entity_filter(to_filter => '{^t}', to_filter_types => '{regex}'), 'a2 b2',
     'recipients by a regular expression, without the broadcast'),
    (pgq.entity_filter('{^a}', '{o}', true, '{regex}', '{regex}'), 'a* a1 a2',
     'messages by sender, recipient and broadcast together')
) x (f, expected, what);
select throws_ok(format('select pgq.entity_filter(%s)', x), '22023', null,
    'entity_filter refuses ' || x)
from unnest(array[
    $$'{a,b}', from_filter_types => '{exact}'$$, $$'{a}', from_filter_types => '{exact,exact}'$$,
    $$'{}'$$, $$to_filter => '{}'$$, $$'{}', from_filter_types => '{}'$$,
    $$'{a}', from_filter_types => '{}'$$, $$from_filter_types => '{exact}'$$,
    $$to_filter => '{a}', to_filter_types => '{exact,regex}'$$,
    $$'{a}', from_filter_types => '{glob}'$$, $$to_filter => '{a}', to_filter_types => '{EXACT}'$$,
    $$array['a', null]$$, $$to_filter => array[null]::text[]$$]) x;
select throws_ok($$select pgq.subscribe('s', 'events.#',
    pgq.entity_filter('{(}', from_filter_types => '{regex}'))$$, 'QU004', null,
    'subscribe refuses an invalid regular expression');
select pgq.subscribe('entity', 'mail', pgq.entity_filter('{alice}', '{one}', true));
insert into pgq.message (topic, payload, sender, recipient)
select 'mail', to_jsonb(who), sender, recipient from mail;
select is(t.take('entity', n => 10), 'a1 a*', 'a subscription can have an entity filter');

-- requests and replies
select pgq.create_queue('questions'), pgq.create_queue('answers');
select pgq.publish('questions', '"why?"', sender => 'asker', recipient => 'oracle',
    reply_to => 'answers', correlation_id => 'q-1') as question \gset
select pgq.publish('questions', '"when?"', sender => 'asker', reply_to => 'answers') as bare \gset
select pgq.publish('questions', '"silence"', sender => 'asker') as mute \gset
select pgq.reply(:question, '"because"') as answer \gset
select is((select to_jsonb(c) - '{lease_id,published_at,lease_until,expires_at}'::text[]
           from pgq.claim('answers') c),
    jsonb_build_object('id', :answer) || '{"topic": "answers", "priority": 0, "attempt": 1,
        "headers": {}, "payload": "because", "sender": "oracle", "recipient": "asker",
        "reply_to": null, "correlation_id": "q-1", "group_key": null}',
    'a reply goes to reply_to, addressed to the sender, with the same correlation_id');
select is((select string_agg(payload #>> '{}', ' ') from pgq.replies('q-1')), 'why? because',
    'replies() finds the request and the reply by their correlation_id');
select pgq.reply(:question, '"and so on"', '{"part": 2}', sender => 'priest');
select is((select array[sender, headers ->> 'part'] from pgq.replies('q-1') offset 2),
    '{priest,2}', 'a second reply can have headers and another sender');
select pgq.reply(:bare, '"soon"');
select is((select string_agg(payload #>> '{}', ' ') from pgq.replies(:'bare')), 'soon',
    'the id of a request without a correlation_id is the correlation_id of the reply');
select is_empty($$select pgq.replies(null)$$, 'replies(null) finds nothing');
select is_empty($$select pgq.replies('q-2')$$,
    'replies() finds nothing for an unknown correlation_id');
select throws_ok(format('select pgq.reply(%s, ''1'')', :mute), '55000', null,
    'a reply to a message without reply_to is an error');
select throws_ok('select pgq.reply(-1, ''1'')', 'P0002', null,
    'a reply to a message that does not exist is an error');
select throws_ok('select pgq.reply(null, ''1'')', 'P0002', null,
    'a reply to null is an error');
select throws_ok(format('select pgq.reply(%s, null)', :question), '22004', null,
    'a reply needs a payload');
select pgq.publish('questions', '"whom?"', reply_to => 'nowhere') as lost \gset
select throws_ok(format('select pgq.reply(%s, ''1'')', :lost), 'QU005', null,
    'a reply to a topic that no queue receives is an error');
set local enable_seqscan = off;
create function pg_temp.plan(statement text) returns setof text language plpgsql as $$
begin
    return query execute 'explain (costs off) ' || statement;
end
$$;
select is((select count(*) from pg_temp.plan(
        $$select * from pgq.message where correlation_id = 'q-1'$$) p
    where p like '%correlation_idx%'), 3::bigint,
    'a lookup by correlation_id uses an index of each of the three eras');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
