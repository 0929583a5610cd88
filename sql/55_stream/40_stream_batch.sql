-- The lease of a batch that was claimed.
create or replace function pgq.stream_batch(
    queue text, consumer text, batch bigint, caller pgq.caller default current_user)
returns table (lease_id bigint, size bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_batch.queue);
begin
    return query
        select l.lease_id, sum(l.size) from pgq.lease l
        where l.queue_id = v_queue.queue_id
          and l.key = pgq._batch_key(stream_batch.consumer, stream_batch.batch)
        group by l.lease_id;
end
$$;
comment on function pgq.stream_batch(text, text, bigint, pgq.caller) is
    'The lease id and size of a batch of a stream that is claimed and not finished; else no row.';
