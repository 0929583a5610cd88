-- The setting in which a session keeps the lease id of its last read of a queue, for its next
-- delete. It is only a hint for speed: pgmq._take looks the lease up.
create or replace function pgmq._note(queue_name text) returns text
language sql immutable parallel safe
return 'pgmq.lease_' || (hashtext(queue_name) & 2147483647);
comment on function pgmq._note(text) is
    'The setting that has the lease id of the session''s last read.';
