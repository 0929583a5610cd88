-- The setting in which a session notes the lease of its last read of a queue, for its next delete.
-- Only speed depends on it: pgmq._take believes nothing that it does not find.
create or replace function pgmq._note(queue_name text) returns text
language sql immutable parallel safe
return 'pgmq.lease_' || (hashtext(queue_name) & 2147483647);
comment on function pgmq._note(text) is
    'The setting that has the lease of the session''s last read.';
