-- Binds a consumer's name to the query whose checkpoint counts its batches.
create or replace function pgq.stream_bind(
    queue text, consumer text, owner text, query text default null, batch bigint default null,
    anew boolean default false, caller pgq.caller default current_user
) returns table (finished bigint, stream_id uuid, bound_to text, committed bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_bind.queue);
    v_stream pgq.stream;
begin
    select s.* into v_stream from pgq.stream s
    where s.queue_id = v_queue.queue_id and s.consumer = stream_bind.consumer for update;
    if v_stream.owner is distinct from stream_bind.owner or v_stream.owner is null then
        raise exception 'consumer "%" of queue "%" has another owner now',
            stream_bind.consumer, stream_bind.queue
            using errcode = 'object_in_use',
                  hint = 'The owner did not renew it within the timeout, and another one took it.';
    end if;
    -- A batch that pgq.commit_batch has finished is not repeated, whatever the checkpoint is.
    if not anew and v_stream.committed is distinct from v_stream.batch
       and (stream_bind.batch is null and v_stream.batch > 0 and stream_bind.query is not null
            or stream_bind.batch is not null and v_stream.query <> stream_bind.query)
    then
        raise exception 'consumer "%" of queue "%" belongs to the checkpoint of another query',
            stream_bind.consumer, stream_bind.queue
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('It has finished batch %s, and %s.', v_stream.batch,
                                  coalesce('this checkpoint is at batch ' || stream_bind.batch,
                                           'this checkpoint is new')),
                  hint = 'Bring the old checkpoint back, or use a new consumer. newCheckpoint=true '
                      'continues after that batch: then give files a new directory too, because '
                      'Spark writes no batch number twice into the same.';
    end if;
    -- Spark reports a new checkpoint again while its first batch is not done: keep the first query.
    if stream_bind.query is not null
       and not (stream_bind.batch is null and v_stream.batch = 0 and v_stream.query is not null)
    then
        v_stream.query := stream_bind.query;
        update pgq.stream s set query = v_stream.query
        where s.queue_id = v_queue.queue_id and s.consumer = stream_bind.consumer;
    end if;
    return query select v_stream.batch, v_stream.stream_id, v_stream.query,
        v_stream.committed;
end
$$;
comment on function pgq.stream_bind(text, text, text, text, bigint, boolean, pgq.caller) is
    'Binds the name of a stream''s consumer to a query, whose checkpoint is at the batch (null: '
    'new). Returns the last finished batch, an id that differs from that of other consumers of the '
    'same name, the bound query (the previous one while no batch is finished), and the last batch '
    'that pgq.commit_batch has finished. 55000 if the name is bound to another query, or if the '
    'checkpoint is new and batches are finished, unless anew is true or pgq.commit_batch finished '
    'the last batch. 55006 if the name has another owner.';
