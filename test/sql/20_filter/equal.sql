-- Filters that only compare headers for equality are tested by containment.
begin;
select plan(27);

create function pg_temp.equal(filter jsonb) returns jsonb language sql as $$
    select pgq._filter_equal(pgq._filter_parse(filter))
$$;
select is(pg_temp.equal('{"a": 1}'), '{"a": 1}',
    'a filter on one header is tested by containment');
select is(pg_temp.equal('{"a": "x", "b": true}'), '{"a": "x", "b": true}',
    'a filter on several headers is tested by containment');
select is(pg_temp.equal('{"a": {"$eq": "x"}}'), '{"a": "x"}',
    '$eq on a header is tested by containment');
select is(pg_temp.equal('{"$and": [{"a": 1}, {"b": 2}]}'), '{"a": 1, "b": 2}',
    '$and of equalities is tested by containment');
select is(pg_temp.equal(filter), null, filter::text || ' is tested by its jsonpath')
from unnest(array[
    '{}', '{"a": null}', '{"a": {"$ne": 1}}', '{"a": {"$in": [1, 2]}}', '{"a": {"$gt": 1}}',
    '{"$or": [{"a": 1}, {"b": 2}]}', '{"$not": {"a": 1}}', '{"$and": [{"a": 1}, {"a": 2}]}',
    '{"payload.a": 1}', '{"msg.topic": "q"}', '{"a": 1, "payload.b": 2}',
    '{"a": 1, "b": {"$exists": true}}']::jsonb[]) filter;

-- A claim returns exactly the messages that pgq.matches accepts.
select pgq.create_queue('q', set_size => 4);
create temp table header (headers jsonb);
insert into header values
    ('{}'), ('{"a": 1}'), ('{"a": 1.0}'), ('{"a": "1"}'), ('{"a": true}'), ('{"a": "true"}'),
    ('{"a": null}'), ('{"a": ""}'), ('{"b": 1}'), ('{"a": 1, "b": "x"}'), ('{"a": 1, "b": "X"}'),
    ('{"a": "x", "b": 1, "c": false}'), ('{"A": 1}'), ('{"a": "\u00e9"}'), ('{"a": "e"}');
create function pg_temp.claimed(filter jsonb) returns bigint[] language plpgsql as $$
declare
    v_ids bigint[];
begin
    select array_agg(c.id order by c.id) into v_ids from pgq.claim('q', filter, 100) c;
    perform pgq.release(l.lease_id) from pgq.leases l;
    return v_ids;
end
$$;
select pgq.publish('q', '0', headers => h.headers) from header h;
select is(
    pg_temp.claimed(filter),
    (select array_agg(m.id order by m.id) from pgq.message m
     where pgq.matches(filter, headers => m.headers)),
    filter::text || ': a claim returns the messages that pgq.matches accepts')
from unnest(array[
    '{"a": 1}', '{"a": "1"}', '{"a": true}', '{"a": ""}', '{"a": 1, "b": "x"}', '{"a": 1.00}',
    '{"A": 1}', '{"a": "\u00e9"}', '{"c": false, "b": 1}', '{"a": 2}']::jsonb[]) filter;
select is(
    (select count(*) from pgq.filter f where f.equal is not null), 9::bigint,
    'all filters above were tested by containment; 1 and 1.00 are the same filter');
select * from finish();
rollback;
