-- The copies of eras and the live log together hold every message once.
begin;
select no_plan();
select t.at(now());
select pgq.create_queue('work', retention => '1 h', lease => '10 years', max_attempts => 1);
select pgq.archive_wait('1 day');
create temp table copied (era bigint, id bigint);
create function pg_temp.archive() returns bigint language plpgsql as $$
declare
    v_next record;
begin
    select * into v_next from pgq.archive_next();
    insert into copied select v_next.era, m.id from pgq.message m where m.era = v_next.slot;
    perform pgq.archived(v_next.era, v_next.messages,
        (select checksum from pgq.era where number = v_next.era), path => 'at ' || v_next.era);
    return v_next.era;
end
$$;
-- The messages, each with the place that it is read from: the copy of an era, or the live log.
create function pg_temp.places(up_to bigint default 1000000) returns text language plpgsql as $$
begin
    return (
        with part as materialized (select * from pgq.log_parts(places.up_to)),
        found as (
            select c.id, 'era ' || c.era as place
            from part p join copied c on c.era = p.era
            where not p.ids @> c.id and c.id <= p.up_to
            union all
            select m.id, 'live' from part p
            join pgq.message m on m.id >= p.low and m.id <= p.up_to or p.ids @> m.id
            where p.era is null
              and m.era <> all (array(select l.slot from pgq.log_lock() l where l.slot is not null))
        )
        select string_agg(format('%s %s', m.payload, f.place), ', ' order by f.id)
        from found f
        left join lateral (select payload from everything e where e.id = f.id) m on true);
end
$$;
create temp table everything (id bigint, payload jsonb);
create function pg_temp.publish(payload text) returns void language plpgsql as $$
begin
    insert into everything values (pgq.publish('work', payload::jsonb), payload::jsonb);
end
$$;
create function pg_temp.rotate() returns void language plpgsql as $$
begin
    update pgq.era set started_at = started_at - interval '1 h';
end
$$;

select is(pg_temp.places(), null, 'there is nothing to read before the first message');
call pgq.maintain();
select pg_temp.publish('1'), pg_temp.publish('2'), pg_temp.publish('3');
select is(pg_temp.places(), '1 live, 2 live, 3 live',
    'all messages are read from the log before the first copy');
select pgq.ack(lease_id) from pgq.claim('work');
select pgq.bury(lease_id) from pgq.claim('work');
select pg_temp.rotate();
call pgq.maintain();
select pg_temp.publish('4');
select is(pg_temp.archive(), 0::bigint, 'the first era is copied');
select is(pg_temp.places(), '1 era 0, 2 era 0, 3 live, 4 live',
    'copied messages are read from the copy, unfinished messages from the log');
select is((select low || ' ' || high || ' ' || old::text from pgq.archive_era) ,
    (select min(id) || ' ' || min(id) + 1 || ' {}' from everything),
    'pgq.archive_era stores the ids of the copy');
select is((select path from pgq.archive_era), 'at 0',
    'pgq.archive_era stores the path of the copy');
select is(pg_temp.places((select max(id) - 1 from everything)), '1 era 0, 2 era 0, 3 live',
    'messages are read up to the given id');

-- A dead letter is replayed while its era is still in the log, and copied to the next era.
select pgq.replay('work');
select is(pg_temp.places(), '1 era 0, 2 era 0, 3 live, 4 live',
    'a replayed message is still read from the copy');
do $$ begin perform pgq._copy_forward(0, 'infinity'); end $$;
select is(pg_temp.places(), '1 era 0, 2 live, 3 live, 4 live',
    'a replayed message that was copied forward is read only from the log');
select pgq.ack(lease_id) from pgq.claim('work', n => 10) limit 1;
select pg_temp.rotate();
call pgq.maintain();
call pgq.maintain();
select is(pg_temp.archive(), 1::bigint, 'the second era is copied');
select is(pg_temp.places(), '1 era 0, 2 era 1, 3 era 1, 4 era 1',
    'every message is read from one place');
select is((select old::text from pgq.archive_era where era = 1),
    (select format('{[%s,%s)}', min(id) + 1, min(id) + 2) from everything),
    'pgq.archive_era stores the ids that an earlier copy already has');
select is_empty($$select from pgq.log_parts(1000000) where era is not null and low is null$$,
    'log_parts reports no missing era');

-- An era that is emptied without a copy.
select pg_temp.publish('5');
select pgq.ack(lease_id) from pgq.claim('work', n => 10) limit 1;
insert into pgq.era (slot, number, started_at) values (0, 3, pgq.now())
on conflict (slot) do update set number = 3, emptied_at = null, archived_at = null;
update pgq.era set emptied_at = pgq.now(), archived_at = null where slot = 2;
select results_eq($$select era from pgq.log_parts(1000000) where era is not null and low is null$$,
    'values (2::bigint)', 'log_parts reports an era that was emptied without a copy');

-- The log rotates during a slow INSERT.
create function pg_temp.slow() returns jsonb language plpgsql volatile as $$
begin
    perform setval('pgq.era_number', pg_sequence_last_value('pgq.era_number') + 1);
    return '"late"';
end
$$;
select setval('pgq.era_number', 3);
insert into pgq.message (topic, payload) values ('work', pg_temp.slow());
select is((select era from pgq.message where payload = '"late"'), 1::smallint,
    'a slow INSERT writes into the era that is current at its end');
select * from finish();
rollback;
