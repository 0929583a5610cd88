-- Every cell of the truth table of the filter language: T matches, a dot does not.
begin;
select plan(17);

create temp table sample (position int, document jsonb);
insert into sample values
    (1, '{}'), (2, '{"k": null}'), (3, '{"k": ""}'), (4, '{"k": "a"}'), (5, '{"k": "A"}'),
    (6, '{"k": "b"}'), (7, '{"k": 5}'), (8, '{"k": 5.0}'), (9, '{"k": "5"}'), (10, '{"k": true}'),
    (11, '{"k": ["a", "b"]}'), (12, '{"k": {"x": 1}}');

create temp table row_of_table (filter jsonb, expected text);
insert into row_of_table values
    --                                        1234 5678 9...
    ('{"k": "a"}',                           '. . . T . . . . . . . .'),
    ('{"k": {"$ne": "a"}}',                  '. . T . T T T T T T T T'),
    ('{"$not": {"k": "a"}}',                 'T T T . T T T T T T T T'),
    ('{"k": {"$in": ["a", "b"]}}',           '. . . T . T . . . . . .'),
    ('{"k": {"$like": "a%"}}',               '. . . T . . . . . . . .'),
    ('{"k": {"$ieq": "a"}}',                 '. . . T T . . . . . . .'),
    ('{"k": null}',                          '. T . . . . . . . . . .'),
    ('{"k": {"$exists": true}}',             '. T T T T T T T T T T T'),
    ('{"k": {"$isNull": true}}',             'T T . . . . . . . . . .'),
    ('{"k": 5}',                             '. . . . . . T T . . . .'),
    ('{"k": {"$gt": 4}}',                    '. . . . . . T T . . . .'),
    ('{"k": {"$lt": "b"}}',                  '. . T T T . . . T . . .'),
    ('{"k": ["a", {"numeric": [">=", 5]}]}', '. . . T . . T T . . . .'),
    ('{"k": [{"anything-but": "a"}]}',       '. . T . T T T T T T T T'),
    ('{"payload.k": "a"}',                   '. . . T . . . . . . T .'),
    ('{"payload.k": {"$ne": "a"}}',          '. . T . T T T T T T . T');

select is(
    (select string_agg(
        case when pgq.matches(r.filter, s.document, s.document) then 'T' else '.' end,
        ' ' order by s.position) from sample as s),
    r.expected, r.filter::text || ' gives its row of the table')
from row_of_table as r;

select is(
    (select count(*) from row_of_table as r, sample as s
        where pgq.matches(r.filter, s.document, s.document)
            = pgq.matches(jsonb_build_object('$not', r.filter), s.document, s.document)),
    0::bigint, '$not is the exact complement of every row');

select * from finish();
rollback;
