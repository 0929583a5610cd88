-- Policies of SNS and patterns of EventBridge are accepted as they are.
begin;
select no_plan();

create temp table example (filter jsonb, headers jsonb, expected boolean, why text);
insert into example values
    ('{"store": ["example_corp"], "event": ["order_placed", "order_cancelled"]}',
        '{"store": "example_corp", "event": "order_cancelled"}', true, 'values are alternatives'),
    ('{"k": [{"prefix": "ba"}]}', '{"k": "bat"}', true, 'prefix'),
    ('{"k": [{"prefix": "ba"}]}', '{"k": "cab"}', false, 'prefix is at the start'),
    ('{"k": [{"prefix": {"equals-ignore-case": "B_"}}]}', '{"k": "b_t"}', true,
        'prefix may ignore case'),
    ('{"k": [{"prefix": {"equals-ignore-case": "B_"}}]}', '{"k": "bat"}', false, 'and is literal'),
    ('{"k": [{"suffix": {"equals-ignore-case": ".PNG"}}]}', '{"k": "a.png"}', true,
        'suffix may ignore case'),
    ('{"k": [{"suffix": "ball"}]}', '{"k": "baseball"}', true, 'suffix'),
    ('{"k": [{"equals-ignore-case": "Tennis"}]}', '{"k": "TENNIS"}', true, 'equals-ignore-case'),
    ('{"k": [{"wildcard": "*ball"}]}', '{"k": "football"}', true, 'wildcard'),
    ('{"k": [{"exists": true}]}', '{"k": null}', true, 'exists'),
    ('{"k": [{"exists": false}]}', '{}', true, 'exists false'),
    ('{"k": [{"exists": false}]}', '{"k": 1}', false, 'exists false fails on a value'),
    ('{"k": [{"numeric": ["=", 5]}]}', '{"k": 5.0}', true, 'numeric ='),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": 150}', true, 'numeric between'),
    ('{"k": [{"numeric": [">", 0, "<=", 150]}]}', '{"k": 0}', false, 'numeric excludes its bound'),
    ('{"k": [{"numeric": ["<", 0]}, {"numeric": [">", 9]}]}', '{"k": 10}', true, 'numeric outside'),
    ('{"k": [{"anything-but": ["a", "b"]}]}', '{"k": "c"}', true, 'anything-but a list'),
    ('{"k": [{"anything-but": ["a", "b"]}]}', '{"k": "b"}', false, 'anything-but excludes each'),
    ('{"k": [{"anything-but": [1, 2]}]}', '{"k": 2}', false, 'anything-but numbers'),
    ('{"k": [{"anything-but": "a"}]}', '{}', false, 'anything-but needs a value'),
    ('{"k": [{"anything-but": {"prefix": "order-"}}]}', '{"k": "data"}', true,
        'anything-but a prefix'),
    ('{"k": [{"anything-but": {"prefix": ["a", "b"]}}]}', '{"k": "bat"}', false,
        'anything-but prefixes'),
    ('{"k": [{"anything-but": {"suffix": ".png"}}]}', '{"k": "a.png"}', false,
        'anything-but a suffix'),
    ('{"k": [{"anything-but": {"equals-ignore-case": ["A", "B"]}}]}', '{"k": "b"}', false,
        'anything-but ignoring case'),
    ('{"k": [{"anything-but": {"wildcard": "*x*"}}]}', '{"k": "axb"}', false,
        'anything-but a wildcard'),
    ('{"k": [{"anything-but": {"wildcard": "*x*"}}]}', '{"k": "ab"}', true,
        'anything-but a wildcard keeps the rest'),
    ('{"k": [null, ""]}', '{"k": null}', true, 'null and the empty text are values'),
    ('{"source": ["aws.ec2"], "detail": {"state": ["running", {"prefix": "stop"}]}}',
        '{"source": "aws.ec2", "detail": {"state": "stopped"}}', true, 'nested patterns'),
    ('{"$or": [{"a": [1]}, {"b": [{"exists": true}]}]}', '{"b": 2}', true, '$or at the top'),
    ('{"detail": {"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}}',
        '{"detail": {"b": 2, "c": 3}}', true, '$or inside');
select is(pgq.matches(e.filter, e.headers), e.expected, 'headers: ' || e.why) from example as e;
select is(pgq.matches(jsonb_build_object('payload', e.filter), '{}', e.headers), e.expected,
    'payload: ' || e.why)
from example as e where not e.filter ? '$or';

select * from finish();
rollback;
