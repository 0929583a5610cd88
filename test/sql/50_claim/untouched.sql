-- Rows that a filtered claim does not change, rows that a claim without a filter does not read,
-- and the cost of a filter's first use.
begin;
select no_plan();
select t.at(now());

-- ctid and xmin identify the version of a row; xmax shows a lock or a deletion.
create function pg_temp.versions(colour text) returns text language plpgsql as $$
begin
    return (
        select string_agg(format('%s %s %s %s', r.ctid, r.xmin, r.xmax, r), e'\n' order by r.ctid)
        from pgq.ready r
        where not exists (select from unnest(r.ids) i
                          join pgq.message m on m.id >= lower(i) and m.id < upper(i)
                          where m.headers ->> 'colour' is distinct from colour));
end
$$;
create function pg_temp.log() returns text language plpgsql as $$
begin
    return (select string_agg(format('%s %s %s %s', m.tableoid, m.ctid, m.xmin, m.xmax), e'\n')
            from pgq.message m);
end
$$;

select pgq.create_queue('single', set_size => 1);
select pgq.create_queue('sets', set_size => 10);
select pgq.create_queue('lanes', '{colour}', set_size => 10);
select pgq.subscribe(q, 'all') from unnest('{single,sets,lanes}'::text[]) q;
-- Ten messages of one colour follow each other, so that a set has one colour.
insert into pgq.message (topic, headers, payload)
select 'all', jsonb_build_object('colour', case when i / 10 % 2 = 0 then 'red' else 'blue' end), '1'
from generate_series(0, 99) i;
create temp table before as select pg_temp.versions('blue') as blue, pg_temp.log() as log;
select matches((select blue from before), '\(0,\d+\)', 'there are ready rows of blue messages');

select is((select count(*) from pgq.claim('single', '{"colour": "red"}', 7)), 7::bigint,
    'a filtered claim takes seven red messages, each in a row of its own');
select is((select count(*) from pgq.claim('sets', '{"colour": "red"}', 17)), 17::bigint,
    'a filtered claim takes a whole set and a part of another');
select is((select count(*) from pgq.claim('lanes', '{"colour": "red"}', 17)), 17::bigint,
    'a filtered claim takes messages of a lane');
select is((select count(*) from pgq.claim('single', '{"colour": "green"}', 7)), 0::bigint,
    'a filtered claim finds no green message');
select is(pg_temp.versions('blue'), (select blue from before),
    'the rows of messages that do not match are neither changed nor locked');
select is(pg_temp.log(), (select log from before),
    'the rows of the log are neither changed nor locked');
select is((select count(*) from pgq.claim(q, '{"colour": "blue"}', 50)), 50::bigint,
    'all blue messages can still be claimed: ' || q)
from unnest('{single,sets,lanes}'::text[]) q;
select isnt(pg_temp.versions('blue'), (select blue from before),
    'claiming the blue messages changes their rows');

-- without a filter
create function pg_temp.looked() returns bigint language sql volatile as $$
    select coalesce(sum(pg_stat_get_xact_numscans(c.oid)), 0)::bigint
    from pg_class c left join pg_index i on i.indexrelid = c.oid
    where coalesce(i.indrelid, c.oid) in (
        'pgq.filter'::regclass, 'pgq.filter_scan'::regclass, 'pgq.filter_hit'::regclass,
        'pgq.lane'::regclass)
$$;
insert into pgq.message (topic, payload) select 'all', '1' from generate_series(1, 20);
select pg_temp.looked() as scans \gset
select is((select count(*) from pgq.claim('single')), 1::bigint,
    'a claim needs only the name of its queue');
select is((select count(*) from pgq.claim('single', null, 2)), 2::bigint, 'a filter may be null');
select is((select count(*) from pgq.claim('sets', '{}', 2)), 2::bigint, 'a filter may be empty');
select is((select count(*) from pgq.claim('lanes', n => 2)), 2::bigint,
    'a claim without a filter works with lanes');
select is(pg_temp.looked(), :scans::bigint,
    'claims without a filter read no table of filters, scan cursors or lanes');
select is((select count(*) from pgq.claim('single', '{"colour": {"$exists": false}}', 2)),
    2::bigint, 'a claim with a filter takes two messages');
select isnt(pg_temp.looked(), :scans::bigint, 'a claim with a filter reads these tables');

-- the same filter again
set local track_functions = 'all';
create function pg_temp.parsed() returns bigint language sql volatile as $$
    select coalesce(pg_stat_get_xact_function_calls('pgq._filter_parse(jsonb)'::regprocedure), 0)
$$;
select count(*) from pgq.claim('single', '{"size": {"$gt": 3}, "colour": ["red", "blue"]}');
select is(pg_temp.parsed(), 1::bigint, 'a new filter is compiled');
select count(*) from pgq.claim('single', '{"colour": ["red", "blue"], "size": {"$gt": 3}}');
select count(*) from pgq.claim('sets', '{"size": {"$gt": 3}, "colour": ["red", "blue"]}', 50);
select count(*) from pgq.peek('sets', '{"size": {"$gt": 3}, "colour": ["red", "blue"]}');
select is(pg_temp.parsed(), 1::bigint,
    'the same filter with other key order, in another queue or in peek is not compiled again');
select count(*) from pgq.claim('single', '{"size": {"$gt": 4}, "colour": ["red", "blue"]}');
select is(pg_temp.parsed(), 2::bigint, 'a different filter is compiled');

select is_empty('select * from pgq.check()', 'nothing is broken');
select * from finish();
rollback;
