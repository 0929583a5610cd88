-- A negative operator: the field has a value, and the positive test fails on it.
create or replace function pgq._filter_unless(scope text, path text[], tree jsonb)
returns jsonb
language sql stable parallel safe
return pgq._filter_combine('and',
    array[pgq._filter_node('some', scope, path), pgq._filter_negate(tree)]);
comment on function pgq._filter_unless(text, text[], jsonb) is
    'The tree of a negative operator: missing and null fail it, as they fail the positive one.';
