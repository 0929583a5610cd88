-- Values and keys enter a compiled filter as literals, and match themselves only.
begin;
select no_plan();

create temp table hostile (value text);
insert into hostile values
    ('''; drop table pgq.message; --'), ('" || true || "'), ('a" == "a'), ('") || (1 == 1'), ('$$'),
    ('$1'), ('\'), ('\\'), ('\"'), ('a\'), ('"'), (''''), (E'a\nb'), (E'\t\r\b\f'), (E'\x01\x1f'),
    (E'\u2028'), ('😀'), ('${x}'), ('@'), ('$."k"'), ('/* */'), ('-- '), ('%'), ('_'), ('*'),
    ('(?i)a'), ('[a]'), ('^a$'), ('a|b'), ('{1,2}'), ('.*'), ('***=a'), ('\d'), ('true'),
    ('null'), ('');

select ok(pgq.matches(f.filter, itself, itself) and not pgq.matches(f.filter, other, other),
    f.name || ' takes ' || to_json(value)::text || ' literally')
from hostile,
    jsonb_build_object('k', value) as itself,
    jsonb_build_object('k', value || 'x') as other,
    lateral (values
        ('$eq', jsonb_build_object('k', value)),
        ('$in', jsonb_build_object('k', jsonb_build_array(value, value || 'y', 1, 2, 3))),
        ('payload $eq', jsonb_build_object('payload.k', value)),
        ('mixed', jsonb_build_object('k', value, 'payload.k', value)),
        ('$suffix', jsonb_build_object('k',
            jsonb_build_object('$suffix', value, '$ne', value || 'x'))),
        ('$ieq', jsonb_build_object('k', jsonb_build_object('$ieq', value))),
        ('$like', jsonb_build_object('k', jsonb_build_object('$like',
            regexp_replace(value, '([\\%_])', '\\\1', 'g')))),
        ('$wildcard', jsonb_build_object('k', jsonb_build_object('$wildcard',
            regexp_replace(value, '([\\*])', '\\\1', 'g')))),
        ('$regex', jsonb_build_object('k', jsonb_build_object('$regex',
            '^' || pgq._regex_quote(value) || '$')))
    ) as f (name, filter);

select ok(bool_and(pgq.matches(jsonb_build_object('k', jsonb_build_object(o.operator, value)),
        jsonb_build_object('k', 'x' || value || 'x'))
        = (o.operator = '$substr')),
    o.operator || ' takes every hostile text literally')
from hostile, (values ('$substr'), ('$prefix'), ('$suffix')) as o (operator)
where value <> ''
group by o.operator;

select ok(
    pgq.matches(jsonb_build_object('$path', jsonb_build_array('payload', value || 'k'), '$eq', 1),
        '{}', jsonb_build_object(value || 'k', 1))
    and not pgq.matches(
        jsonb_build_object('$path', jsonb_build_array('payload', value || 'k'), '$eq', 1),
        '{}', jsonb_build_object('k', 1, 'other', 1)) = (value <> ''),
    '$path takes the key ' || to_json(value)::text || ' literally')
from hostile;

select ok(
    pgq.matches(jsonb_build_object('payload', jsonb_build_object(value || 'k', f.test)), '{}',
        jsonb_build_object(value || 'k', 1))
    and pgq.matches(jsonb_build_object('payload', jsonb_build_object('a',
        jsonb_build_object(value || 'k', f.test))), '{}',
        jsonb_build_object('a', jsonb_build_object(value || 'k', 1)))
    and not pgq.matches(jsonb_build_object('payload', jsonb_build_object(value || 'k', f.test)),
        '{}', jsonb_build_object('k', 1, 'other', 1)) = (value <> ''),
    format('the bare key %s is taken literally with %s', to_json(value), f.test))
from hostile, (values ('{"$eq": 1}'::jsonb), ('[1]')) as f (test)
where value !~ E'[.]' and value not like '$%';
select throws_ok(format('select pgq._filter_parse(%L::jsonb)', jsonb_build_object(value, 1)),
    'QU004', null, 'the bare key ' || to_json(value)::text || ' is refused')
from hostile where value = '' or value like '$%' or value ~ E'^[.]|[.][.]|[.]$';
select ok(
    pgq.matches(jsonb_build_object('payload', jsonb_build_object('k', f.list)), '{}',
        jsonb_build_object('k', value))
    and not pgq.matches(jsonb_build_object('payload', jsonb_build_object('k', f.list)), '{}',
        jsonb_build_object('k', 'x' || value || 'x')),
    format('%s of a list takes the text %s literally', f.name, to_json(value)))
from hostile,
    lateral (values
        ('value', jsonb_build_array('-', value)),
        ('prefix', jsonb_build_array(
            jsonb_build_object('prefix', '-'), jsonb_build_object('prefix', value))),
        ('suffix', jsonb_build_array(
            jsonb_build_object('suffix', '-'), jsonb_build_object('suffix', value))),
        ('equals-ignore-case', jsonb_build_array(jsonb_build_object('equals-ignore-case', '-'),
            jsonb_build_object('equals-ignore-case', value))),
        ('wildcard', jsonb_build_array(jsonb_build_object('wildcard', '-'),
            jsonb_build_object('wildcard', regexp_replace(value, '([\\*])', '\\\1', 'g'))))
    ) as f (name, list)
where value <> '';

select ok(pgq.matches(jsonb_build_object('k', jsonb_build_object('$eq', jsonb_build_object(
        value, jsonb_build_array(value)))), jsonb_build_object('k', jsonb_build_object(
        value, jsonb_build_array(value)))),
    'an object with ' || to_json(value)::text || ' equals itself')
from hostile;

select * from finish();
rollback;
