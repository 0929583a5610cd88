-- Staged publishing: nothing is delivered before the publication, and then everything, once.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work');
create temp table token as
select i, gen_random_uuid() as token from generate_series(1, 9) i;
create function pg_temp.stage(which int, variadic payloads text[]) returns uuid
language plpgsql as $$
begin
    insert into pgq.staged (token, position, topic, payload)
    select t.token, p.i, 'work', to_jsonb(p.payload)
    from token t, unnest(payloads) with ordinality p (payload, i) where t.i = which;
    return (select t.token from token t where t.i = which);
end
$$;
create function pg_temp.tokens(variadic which int[]) returns uuid[] language plpgsql as $$
begin
    return array(select t.token from unnest(which) with ordinality w (i, o)
                 join token t using (i) order by w.o);
end
$$;

select pg_temp.stage(1, 'a', 'b');
select pg_temp.stage(2, 'c');
select pg_temp.stage(3, 'lost');
select is(t.peek('work'), null, 'staged messages are not delivered');
select is(pgq.publish_staged(pg_temp.tokens(2, 1), 3), 3::bigint,
    'publish_staged publishes the messages of the given tokens');
select is(t.peek('work'), 'c a b',
    'the messages are in the order of the tokens, then of their positions');
select is((select count(*) from pgq.staged), 1::bigint, 'messages of other tokens stay staged');
select is(pgq.publish_staged(pg_temp.tokens(2, 1)), 0::bigint,
    'the messages of a token are published once');
select is(pgq.discard_staged(pg_temp.tokens(3)), 1::bigint,
    'discard_staged deletes the messages of a token');
select is(pgq.publish_staged('{}', 0), 0::bigint,
    'publish_staged without tokens publishes nothing');
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(1), 2)$$, '55000', null,
    'publish_staged fails if staged messages are missing');
select throws_ok($$select pgq.publish_staged('{}', writer => 'w')$$, '22023', null,
    'a writer needs an epoch');
select throws_ok($$select pgq.publish_staged('{}', epoch => 1)$$, '22023', null,
    'an epoch needs a writer');

-- epochs
select pg_temp.stage(4, 'd');
select is(pgq.publish_staged(pg_temp.tokens(4), 1, 'sink', 0), 1::bigint, 'an epoch is published');
select pg_temp.stage(5, 'd');
select is(pgq.publish_staged(pg_temp.tokens(5), 1, 'sink', 0), 0::bigint,
    'an epoch is published once');
select is((select count(*) from pgq.staged), 0::bigint,
    'messages that were staged again for a published epoch are deleted');
select pg_temp.stage(6, 'e');
select is(pgq.publish_staged(pg_temp.tokens(6), 1, 'sink', 1), 1::bigint,
    'the next epoch is published');
select pg_temp.stage(7, 'e');
select is(pgq.publish_staged(pg_temp.tokens(7), 1, 'other', 1), 1::bigint,
    'another writer has its own epochs');
select results_eq('select writer, epoch, size, published_at from pgq.writer order by 1',
    $$values ('other', 1::bigint, 1::bigint, pgq.now()), ('sink', 1, 1, pgq.now())$$,
    'pgq.writer holds the last epoch of each writer');
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(8), 1, 'sink', 0)$$, '55000', null,
    'an epoch before the last one is refused: a new query may use the name of an old writer');
select is(pgq.writer_epoch('sink'), 1::bigint, 'writer_epoch returns the last epoch of a writer');
select is(pgq.writer_epoch('nobody'), null, 'writer_epoch returns null for a new writer');
select is(pgq.writer_epoch('sink', 'work'), 1::bigint,
    'writer_epoch accepts a topic that a queue receives');
select throws_ok($$select pgq.writer_epoch('sink', 'nowhere')$$, 'QU005', null,
    'writer_epoch refuses a topic that no queue receives');
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(8), 1, 'sink', 2)$$, '55000', null,
    'an epoch whose staged messages are missing fails');
select is((select epoch from pgq.writer where writer = 'sink'), 1::bigint,
    'an epoch that fails is not recorded');

-- queries
select pgq.publish_staged('{}', 0, 'tied', 0, 'q1');
select is(pgq.publish_staged('{}', 0, 'tied', 0, 'q1'), 0::bigint,
    'a query can publish its epoch again, which publishes nothing');
select throws_ok(format($$select pgq.publish_staged('{}', 0, 'tied', %s, 'q2')$$, epoch), '55000',
    'writer "tied" belongs to the checkpoint of another query',
    format('another query is refused, with epoch %s', epoch))
from generate_series(0, 1) epoch;
select lives_ok($$select pgq.publish_staged('{}', 0, 'tied', 0)$$,
    'a call without a query is accepted for a writer that belongs to a query');
select pg_temp.stage(5, 'f');
select is(pgq.publish_staged(pg_temp.tokens(5), 1, 'tied', 0, 'q2', true), 1::bigint,
    'another query is accepted if it starts anew');
select pg_temp.stage(5, 'f');
select is(pgq.publish_staged(pg_temp.tokens(5), 1, 'tied', 0, 'q2', true), 0::bigint,
    'the epoch of a query that starts anew is published once');
select throws_ok($$select pgq.publish_staged('{}', 0, 'tied', 1, 'q1')$$, '55000', null,
    'the first query is refused after another query has started anew');
delete from pgq.writer where writer = 'tied';

-- rights
create role staging;
create role intruder;
select pgq.create_queue('closed');
select pgq.grant_queue('work', r, 'publish') from unnest('{staging,intruder}'::name[]) r;
grant select on token to staging, intruder;
set role staging;
select gen_random_uuid() as mine \gset
insert into pgq.staged (token, position, topic, payload) values (:'mine', 1, 'work', '"mine"');
select is(pgq.publish_staged(array[:'mine']::uuid[], 1, 'of staging', 0), 1::bigint,
    'a role with the right to publish can stage and publish messages');
insert into pgq.staged (token, position, topic, payload)
values (:'mine', 1, 'work', '1'), (:'mine', 2, 'closed', '2');
select throws_ok(format($$select pgq.publish_staged('{%s}')$$, :'mine'), '42501', null,
    'a role cannot publish staged messages to a topic without the right to publish');
select pgq.discard_staged(array[:'mine']::uuid[]);
set role intruder;
select is(pgq.writer_epoch('of staging'), null,
    'writer_epoch returns null for the writer of another role');
select throws_ok($$select pgq.publish_staged('{}', 0, 'of staging', 1)$$, '42501', null,
    'a role cannot publish an epoch of the writer of another role');
reset role;
select is((select publisher from pgq.message where payload = '"mine"'), 'staging',
    'the message names the role that published it');
select lives_ok($$select pgq.publish_staged('{}', 0, 'of staging', 1)$$,
    'the owner can publish an epoch of the writer of another role');
delete from pgq.writer where writer = 'of staging';

-- all fields of a message
insert into pgq.staged (token, position, topic, priority, headers, payload, sender, recipient,
                        reply_to, correlation_id, group_key, dedup_key, deliver_at, expires_at)
select token, 1, 'work', 9, '{"h": 1}', '"full"', 's', 'r', 'back', 'c', 'g', 'd',
       pgq.now() - interval '1 s', pgq.now() + interval '1 h' from token where i = 8;
select pgq.publish_staged(pg_temp.tokens(8), 1);
select results_eq(
    $$select priority, headers, sender, recipient, reply_to, correlation_id, group_key, dedup_key,
             deliver_at, expires_at from pgq.message where payload = '"full"'$$,
    $$values (9, '{"h": 1}'::jsonb, 's', 'r', 'back', 'c', 'g', 'd', pgq.now() - interval '1 s',
              pgq.now() + interval '1 h')$$, 'all fields of a staged message are published');
insert into pgq.staged (token, position, topic, priority, payload)
select token, 1, 'work', 5000, '1' from token where i = 9;
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(9), 1)$$, '22023', null,
    'publish_staged refuses a message with an invalid priority');

-- order within a token, whatever the order of staging
delete from pgq.staged;
insert into pgq.staged (token, position, topic, payload)
select token, p, 'work', to_jsonb(p) from token, unnest('{3,1,2}'::int[]) p where i = 9;
select pgq.publish_staged(pg_temp.tokens(9), 3);
select is((select string_agg(payload::text, ' ' order by id)
           from (select * from pgq.message order by id desc limit 3) m), '1 2 3',
    'messages of a token are published in the order of their positions');

-- many messages: pgq.staged is truncated, unless it holds messages of other tokens
create function pg_temp.file() returns oid language sql as
$$select pg_relation_filenode('pgq.staged')$$;
delete from pgq.staged;
insert into pgq.staged (token, position, topic, payload)
select token, p, 'work', to_jsonb(p) from token, generate_series(1, 10000) p where i in (7, 8);
select pg_temp.file() as file \gset
select is(pgq.publish_staged(pg_temp.tokens(7), 10000), 10000::bigint,
    '10000 staged messages are published');
select results_eq('select token, count(*) from pgq.staged group by 1',
    'select token, 10000::bigint from token where i = 8', 'messages of another token stay staged');
select is(pg_temp.file(), :file::oid,
    'pgq.staged is not truncated while it holds messages of another token');
select is(pgq.publish_staged(pg_temp.tokens(8), 10000), 10000::bigint,
    'the last 10000 staged messages are published');
select is((select count(*) from pgq.staged), 0::bigint, 'no staged message is left');
select isnt(pg_temp.file(), :file::oid,
    'pgq.staged is truncated after its last messages are published');

-- orphans
insert into pgq.staged (token, position, topic, payload)
select token, 1, 'work', '1' from token where i = 9;
update pgq.staged set staged_at = pgq.now() - interval '23 h';
call pgq.maintain();
select is((select count(*) from pgq.staged), 1::bigint,
    'maintenance keeps messages that were staged 23 hours ago');
select t.advance('2 h');
call pgq.maintain();
select is((select count(*) from pgq.staged), 0::bigint,
    'maintenance deletes messages that were staged 25 hours ago');
select is_empty($$select * from pgq.check()$$, 'nothing is broken');
select * from finish();
rollback;
