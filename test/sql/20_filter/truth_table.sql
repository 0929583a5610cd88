-- Every cell of the truth table of the filter language: T matches, a dot does not.
begin;
select no_plan();

create temp table sample (position int, document jsonb);
insert into sample values
    (1, '{}'), (2, '{"k": null}'), (3, '{"k": ""}'), (4, '{"k": "a"}'), (5, '{"k": "A"}'),
    (6, '{"k": "b"}'), (7, '{"k": 5}'), (8, '{"k": 5.0}'), (9, '{"k": "5"}'), (10, '{"k": true}'),
    (11, '{"k": ["a", "b"]}'), (12, '{"k": {"x": 1}}'), (13, '{"k": []}'), (14, '{"k": [["a"]]}');

create temp table row_of_table (filter jsonb, expected text);
insert into row_of_table values
    --                                              1 2 3 4 5 6 7 8 9...
    ('{"k": {"$eq": "a"}}',                        '. . . T . . . . . . T . . .'),
    ('{"k": {"$ne": "a"}}',                        '. . T . T T T T T T . T T T'),
    ('{"$not": {"k": {"$eq": "a"}}}',              'T T T . T T T T T T . T T T'),
    ('{"k": {"$in": ["a", "b"]}}',                 '. . . T . T . . . . T . . .'),
    ('{"k": {"$like": "a%"}}',                     '. . . T . . . . . . T . . .'),
    ('{"k": {"$ieq": "a"}}',                       '. . . T T . . . . . T . . .'),
    ('{"k": {"$eq": null}}',                       '. T . . . . . . . . . . . .'),
    ('{"k": {"$exists": true}}',                   '. T T T T T T T T T T T T T'),
    ('{"k": {"$exists": false}}',                  'T . . . . . . . . . . . . .'),
    ('{"k": {"$isNull": true}}',                   'T T . . . . . . . . . . . .'),
    ('{"k": {"$gt": 4}}',                          '. . . . . . T T . . . . . .'),
    ('{"k": {"$lt": "b"}}',                        '. . T T T . . . T . T . . .'),
    -- operators of SNS and EventBridge
    ('{"k": "a"}',                                 '. . . T . . . . . . T . . T'),
    ('{"k": ["a"]}',                               '. . . T . . . . . . T . . T'),
    ('{"k": [{"anything-but": "a"}]}',             '. T T . T T T T T T T . . .'),
    ('{"k": [{"anything-but": {"prefix": "a"}}]}', '. T T . T T T T T T T . . .'),
    ('{"$not": {"k": [{"anything-but": "a"}]}}',   'T . . T . . . . . . . T T T'),
    ('{"k": [{"prefix": "a"}]}',                   '. . . T . . . . . . T . . T'),
    ('{"k": [{"prefix": "a"}, {"suffix": "A"}]}',  '. . . T T . . . . . T . . T'),
    ('{"k": [{"equals-ignore-case": "a"}]}',       '. . . T T . . . . . T . . T'),
    ('{"k": [null]}',                              '. T . . . . . . . . . . . .'),
    ('{"k": [{"exists": true}]}',                  '. T T T T T T T T T T . . T'),
    ('{"k": [{"exists": false}]}',                 'T . . . . . . . . . . T T .'),
    ('{"k": ["a", {"exists": false}]}',            'T . . T . . . . . . T T T T'),
    ('{"k": [5]}',                                 '. . . . . . T T . . . . . .'),
    ('{"k": ["a", {"numeric": [">=", 5]}]}',       '. . . T . . T T . . T . . T');

select is(
    (select string_agg(
        case when pgq.matches(jsonb_build_object('payload', r.filter), '{}', s.document) then 'T'
            else '.' end, ' ' order by s.position) from sample as s),
    r.expected, r.filter::text || ' has the documented row for the payload')
from row_of_table as r;
select is(
    (select string_agg(
        case when pgq.matches(r.filter, s.document) then 'T' else '.' end, ' ' order by s.position)
        from sample as s where s.position <= 11),
    left(r.expected, 21), r.filter::text || ' has the documented row for headers')
from row_of_table as r;

select is(
    (select count(*) from row_of_table as r, sample as s
        where pgq.matches(r.filter, s.document, s.document)
            = pgq.matches(jsonb_build_object('$not', r.filter), s.document, s.document)),
    0::bigint, '$not is the exact complement of every row');

-- A field of an array element has the same row.
select is(
    (select count(*) from row_of_table as r, sample as s
        where not r.filter ? '$not' and s.position not in (1, 2) and pgq.matches(
            jsonb_build_object('payload', r.filter), '{}', s.document)
        <> pgq.matches(jsonb_build_object('payload.items', jsonb_build_object('$elemMatch',
            r.filter)), '{}', jsonb_build_object('items', jsonb_build_array(s.document)))),
    0::bigint, 'a test means the same inside $elemMatch');

select * from finish();
rollback;
