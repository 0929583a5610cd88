-- A rate of twice as many messages.
create or replace function pgq._doubled(rate text) returns text
language sql immutable parallel safe
return 2 * split_part(rate, '/', 1)::bigint || '/' || split_part(rate, '/', 2);
comment on function pgq._doubled(text) is 'A rate of twice as many messages.';
