-- Strings as numbers in the same order, by their first six bytes.
create or replace function pgq._text_place(value text) returns float8
language sql immutable parallel safe
return ('x' || rpad(encode(substr(convert_to(value, 'UTF8'), 1, 6), 'hex'), 12, '0'))::bit(48)
    ::bigint::float8;
comment on function pgq._text_place(text) is 'A number that sorts like the beginning of a string.';
