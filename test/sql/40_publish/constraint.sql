-- A user's constraint on the log holds for all ways of publishing, and in every era.
select no_plan();
select t.at(now());
select pgq.create_queue('strict', retention => '0'), pgq.create_queue('free');
alter table pgq.message add constraint message_strict check (
    topic <> 'strict'
    or (sender is not null and coalesce((headers ->> 'version')::int, 1) > 0)) not valid;

create function pg_temp.asks(era text) returns setof text language plpgsql as $$
begin
    return next throws_ok($q$select pgq.publish('strict', '1')$q$, '23514', null,
        era || ': publish refuses a message without a sender');
    return next throws_ok(
        $q$select pgq.publish_batch('strict', '{1,2}', '{"{\"version\": 1}","{\"version\": 0}"}',
                                    sender => 'me')$q$,
        '23514', null, era || ': publish_batch refuses a batch in which one version is 0');
    return next throws_ok(
        $q$insert into pgq.message (topic, payload) values ('free', '1'), ('strict', '1')$q$,
        '23514', null, era || ': an INSERT of two rows is refused if one row is invalid');
    return next lives_ok($q$select pgq.publish('strict', '1', '{"version": 2}', sender => 'me'),
                                   pgq.publish('strict', '1', sender => 'me'),
                                   pgq.publish('free', '1', '{"version": 0}')$q$,
        era || ': valid messages are published, and other topics are not restricted');
end
$$;
select pg_temp.asks('the first era');
select is((select count(*) from pgq.message), 3::bigint,
    'the log holds the valid messages and no others');
create temp table turns as
select i, null::bigint as era from generate_series(1, 4) i;
do $$
declare
    v_turn int;
begin
    for v_turn in 1 .. 4 loop
        perform t.advance('2 days'), pgq.publish('strict', '1', sender => 'me');
        for step in 1 .. 5 loop
            call pgq.maintain();
            commit;
        end loop;
        update turns set era = (select max(number) from pgq.era) where i = v_turn;
    end loop;
end
$$;
select cmp_ok((select max(era) from turns), '>=', 3::bigint, 'every slot of the log has been used');
select is((select ready from pgq.queue_stats where queue = 'strict'), 6::bigint,
    'rotation copies unfinished messages forward');
select pg_temp.asks('after a full rotation');
select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
