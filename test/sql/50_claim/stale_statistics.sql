-- Statistics from a time when pgq.ready was empty make every index look cheap. A claim still reads
-- only the rows that it needs, not the whole queue by an index that begins with its id.
select no_plan();
select t.at(now());
create function t.read() returns bigint language sql volatile return (
    select sum(pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid))
    from pg_class c left join pg_index i on i.indexrelid = c.oid
    where coalesce(i.indrelid, c.oid) = 'pgq.ready'::regclass);
create function t.read_by(statement text) returns bigint language plpgsql as $$
declare
    v_before bigint := t.read();
begin
    execute statement;
    return t.read() - v_before;
end $$;

select pgq.create_queue('sets', set_size => 7), pgq.create_queue('single', set_size => 1);
select pgq.create_queue('laned', '{type}', set_size => 7);
insert into pgq.message (topic, payload, headers)
select q, '1', jsonb_build_object('type', i % 2, 'n', i)
from unnest('{sets,single,laned}'::text[]) q, generate_series(1, 5000) i;
select pgq.purge(q) from unnest('{sets,single,laned}'::text[]) q;
vacuum (analyze, truncate off) pgq.ready;
select is((select reltuples from pg_class where oid = 'pgq.ready'::regclass), 0::real,
    'the planner believes that the table is empty');
insert into pgq.message (topic, payload, headers)
select q, '1', jsonb_build_object('type', i % 2, 'n', i)
from unnest('{sets,single,laned}'::text[]) q, generate_series(1, 5000) i;
select cmp_ok(t.read_by(format('select from pgq.claim(%L, %L, n => 3)', q, f)), '<', 500::bigint,
    format('a claim from %s with filter %s reads few rows', q, coalesce(f, 'none')))
from unnest('{sets,single,laned}'::text[]) q,
     unnest(array[null, '{"type": 1}', '{"n": [45, 46, 47]}']) f;
select cmp_ok(t.read_by(format('select from pgq.claim(%L, %L, n => 3)', q, f)), '<', 500::bigint,
    format('the next claim from %s with filter %s reads few rows', q, coalesce(f, 'none')))
from unnest('{sets,single,laned}'::text[]) q,
     unnest(array[null, '{"type": 1}', '{"n": [55, 56, 57]}']) f;

select pgq.drop_queue(q.name, force => true) from pgq.queue q;
select * from finish();
