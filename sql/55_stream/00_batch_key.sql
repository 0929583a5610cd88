-- The key of the named claim that is a batch of a stream.
create or replace function pgq._batch_key(consumer text, batch bigint) returns text
language sql immutable parallel safe
return 'stream ' || consumer || ' ' || batch;
comment on function pgq._batch_key(text, bigint) is
    'The key of the named claim that is a batch of a stream.';
