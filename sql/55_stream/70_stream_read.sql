-- Records which execution of an engine reads a batch, so that this execution can commit it.
create or replace function pgq.stream_read(
    queue text, consumer text, batch bigint, reader text, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_read.queue);
begin
    if reader is null or reader = '' or length(reader) > 200
       or num_nonnulls(consumer, batch) < 2
    then
        raise exception 'a reader needs a name of at most 200 characters, a consumer and a batch'
            using errcode = 'invalid_parameter_value',
                  hint = 'The name identifies this execution of the batch.';
    end if;
    -- The first task of an execution writes the row; its other tasks write nothing.
    insert into pgq.lineage as l (reader, queue_id, consumer, batch, size, read_at)
    values (stream_read.reader, v_queue.queue_id, stream_read.consumer, stream_read.batch,
            coalesce((select sum(e.size) from pgq.lease e
                      where e.queue_id = v_queue.queue_id
                        and e.key = pgq._batch_key(stream_read.consumer, stream_read.batch)), 0),
            pgq.now())
    on conflict on constraint lineage_pkey do update
    set batch = excluded.batch, size = excluded.size
    where excluded.batch > l.batch;
    if found then
        delete from pgq.lineage l
        where l.queue_id = v_queue.queue_id and l.consumer = stream_read.consumer
          and l.batch < stream_read.batch - pgq._limit('lineage');
        perform pgq._flush();
    end if;
end
$$;
comment on function pgq.stream_read(text, text, bigint, text, pgq.caller) is
    'Records that an execution of an engine reads a batch of a stream. Each task calls it before '
    'it reads a message. pgq.commit_batch finishes the batches that its reader has recorded.';
