-- Names a field of the filters of a topic pattern. A hash collision only costs an extra test.
create or replace function pgq._field_hash(pattern text, scope text, key text) returns bigint
language sql immutable parallel safe
return pg_catalog.hashtextextended(
    (scope || E'\n' || key || E'\n' || pattern) collate "C", 0);
comment on function pgq._field_hash(text, text, text) is
    'The hash of a field of the filters of a topic pattern.';
