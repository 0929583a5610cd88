-- Whether headers are an object of scalars and suggest no route: such messages need no trigger.
create or replace function pgq._is_plain(headers jsonb) returns boolean
language sql immutable parallel safe
return headers is null or jsonb_typeof(headers) = 'object' and not headers ? 'route'
    and not headers @? '$.*.type() ? (@ == "array" || @ == "object")';
comment on function pgq._is_plain(jsonb) is 'Whether headers need no special handling.';
