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
select is(t.peek('work'), null, 'what is staged is not delivered');
select is(pgq.publish_staged(pg_temp.tokens(2, 1), 3), 3::bigint, 'chosen tokens are published');
select is(t.peek('work'), 'c a b', 'token after token, in order');
select is((select count(*) from pgq.staged), 1::bigint, 'the others stay');
select is(pgq.publish_staged(pg_temp.tokens(2, 1)), 0::bigint, 'a token is published once');
select is(pgq.discard_staged(pg_temp.tokens(3)), 1::bigint, 'what is not wanted is forgotten');
select is(pgq.publish_staged('{}', 0), 0::bigint, 'no token is nothing');
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(1), 2)$$, '55000', null,
    'if some are missing nothing is published');
select throws_ok($$select pgq.publish_staged('{}', writer => 'w')$$, '22023', null,
    'a writer needs an epoch');
select throws_ok($$select pgq.publish_staged('{}', epoch => 1)$$, '22023', null,
    'and an epoch a writer');

-- epochs
select pg_temp.stage(4, 'd');
select is(pgq.publish_staged(pg_temp.tokens(4), 1, 'sink', 0), 1::bigint, 'an epoch is published');
select pg_temp.stage(5, 'd');
select is(pgq.publish_staged(pg_temp.tokens(5), 1, 'sink', 0), 0::bigint, 'once');
select is((select count(*) from pgq.staged), 0::bigint, 'what was staged again is forgotten');
select pg_temp.stage(6, 'e');
select is(pgq.publish_staged(pg_temp.tokens(6), 1, 'sink', 1), 1::bigint, 'the next one follows');
select pg_temp.stage(7, 'e');
select is(pgq.publish_staged(pg_temp.tokens(7), 1, 'other', 1), 1::bigint,
    'another writer counts for itself');
select results_eq('select writer, epoch, size, published_at from pgq.writer order by 1',
    $$values ('other', 1::bigint, 1::bigint, pgq.now()), ('sink', 1, 1, pgq.now())$$,
    'the last epochs are kept');
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(8), 1, 'sink', 0)$$, '55000', null,
    'an epoch from before the last is refused: somebody begins anew under an old name');
select is(pgq.writer_epoch('sink'), 1::bigint, 'a writer can ask where it is');
select is(pgq.writer_epoch('nobody'), null, 'a new one is nowhere');
select is(pgq.writer_epoch('sink', 'work'), 1::bigint, 'and whether its topic is received');
select throws_ok($$select pgq.writer_epoch('sink', 'nowhere')$$, 'QU005', null, 'or by nobody');
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(8), 1, 'sink', 2)$$, '55000', null,
    'an epoch whose messages are gone fails');
select is((select epoch from pgq.writer where writer = 'sink'), 1::bigint, 'and is not taken');

-- queries
select pgq.publish_staged('{}', 0, 'tied', 0, 'q1');
select is(pgq.publish_staged('{}', 0, 'tied', 0, 'q1'), 0::bigint, 'a query does its epoch again');
select throws_ok(format($$select pgq.publish_staged('{}', 0, 'tied', %s, 'q2')$$, epoch), '55000',
    'writer "tied" belongs to the checkpoint of another query',
    format('another query is refused, with epoch %s', epoch))
from generate_series(0, 1) epoch;
select lives_ok($$select pgq.publish_staged('{}', 0, 'tied', 0)$$,
    'who names none is not compared');
select pg_temp.stage(5, 'f');
select is(pgq.publish_staged(pg_temp.tokens(5), 1, 'tied', 0, 'q2', true), 1::bigint,
    'unless it begins anew');
select pg_temp.stage(5, 'f');
select is(pgq.publish_staged(pg_temp.tokens(5), 1, 'tied', 0, 'q2', true), 0::bigint, 'once');
select throws_ok($$select pgq.publish_staged('{}', 0, 'tied', 1, 'q1')$$, '55000', null,
    'then the first query is another one');
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
    'a role that may publish stages and publishes');
insert into pgq.staged (token, position, topic, payload)
values (:'mine', 1, 'work', '1'), (:'mine', 2, 'closed', '2');
select throws_ok(format($$select pgq.publish_staged('{%s}')$$, :'mine'), '42501', null,
    'but not to what it may not publish to');
select pgq.discard_staged(array[:'mine']::uuid[]);
set role intruder;
select is(pgq.writer_epoch('of staging'), null,
    'another role learns nothing of a writer');
select throws_ok($$select pgq.publish_staged('{}', 0, 'of staging', 1)$$, '42501', null,
    'nor under the name of another role');
reset role;
select is((select publisher from pgq.message where payload = '"mine"'), 'staging',
    'the message says who published it');
select lives_ok($$select pgq.publish_staged('{}', 0, 'of staging', 1)$$, 'the owner may');
delete from pgq.writer where writer = 'of staging';

-- everything a message has
insert into pgq.staged (token, position, topic, priority, headers, payload, sender, recipient,
                        reply_to, correlation_id, group_key, dedup_key, deliver_at, expires_at)
select token, 1, 'work', 9, '{"h": 1}', '"full"', 's', 'r', 'back', 'c', 'g', 'd',
       pgq.now() - interval '1 s', pgq.now() + interval '1 h' from token where i = 8;
select pgq.publish_staged(pg_temp.tokens(8), 1);
select results_eq(
    $$select priority, headers, sender, recipient, reply_to, correlation_id, group_key, dedup_key,
             deliver_at, expires_at from pgq.message where payload = '"full"'$$,
    $$values (9, '{"h": 1}'::jsonb, 's', 'r', 'back', 'c', 'g', 'd', pgq.now() - interval '1 s',
              pgq.now() + interval '1 h')$$, 'all fields are published');
insert into pgq.staged (token, position, topic, priority, payload)
select token, 1, 'work', 5000, '1' from token where i = 9;
select throws_ok($$select pgq.publish_staged(pg_temp.tokens(9), 1)$$, '22023', null,
    'what cannot be published is refused');

-- order within a token, whatever order it was staged in
delete from pgq.staged;
insert into pgq.staged (token, position, topic, payload)
select token, p, 'work', to_jsonb(p) from token, unnest('{3,1,2}'::int[]) p where i = 9;
select pgq.publish_staged(pg_temp.tokens(9), 3);
select is((select string_agg(payload::text, ' ' order by id)
           from (select * from pgq.message order by id desc limit 3) m), '1 2 3',
    'positions are the order');

-- many: the table is emptied at once, unless there is something else in it
create function pg_temp.file() returns oid language sql as
$$select pg_relation_filenode('pgq.staged')$$;
delete from pgq.staged;
insert into pgq.staged (token, position, topic, payload)
select token, p, 'work', to_jsonb(p) from token, generate_series(1, 10000) p where i in (7, 8);
select pg_temp.file() as file \gset
select is(pgq.publish_staged(pg_temp.tokens(7), 10000), 10000::bigint, 'many are published');
select results_eq('select token, count(*) from pgq.staged group by 1',
    'select token, 10000::bigint from token where i = 8', 'those of others stay');
select is(pg_temp.file(), :file::oid, 'where they are');
select is(pgq.publish_staged(pg_temp.tokens(8), 10000), 10000::bigint, 'the last ones');
select is((select count(*) from pgq.staged), 0::bigint, 'leave nothing');
select isnt(pg_temp.file(), :file::oid, 'not even a file');

-- orphans
insert into pgq.staged (token, position, topic, payload)
select token, 1, 'work', '1' from token where i = 9;
update pgq.staged set staged_at = pgq.now() - interval '23 h';
call pgq.maintain();
select is((select count(*) from pgq.staged), 1::bigint, 'what was staged today stays');
select t.advance('2 h');
call pgq.maintain();
select is((select count(*) from pgq.staged), 0::bigint, 'what nobody published is swept');
select is_empty($$select * from pgq.check()$$, 'all is sound');
select * from finish();
rollback;
