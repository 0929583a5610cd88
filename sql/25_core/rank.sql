-- One number that sorts as (priority descending, what comes back before what is fresh, lowest id):
-- 2^50 apart for each priority, 2^49 for fresh. Being one number, a scan can start anywhere in it,
-- and fresh messages, which only ever arrive at the end, can be told from those that come back.
create or replace function pgq._rank(priority int, back boolean, id bigint) returns bigint
language sql immutable parallel safe
return -priority::bigint * 1125899906842624
    + case when back then 0 else 562949953421312 end + id;
comment on function pgq._rank(int, boolean, bigint) is 'Where in its queue a message stands.';
revoke all on function pgq._rank(int, boolean, bigint) from public;
