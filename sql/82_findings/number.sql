-- A number with thousands separators, such as 12,345.
create or replace function pgq._number(n numeric) returns text
language sql immutable parallel safe
return to_char(n, 'FM999,999,999,999,999,990');
comment on function pgq._number(numeric) is 'A number with thousands separators, such as 12,345.';
