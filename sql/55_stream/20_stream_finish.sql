-- Acknowledges the batches of a stream up to this one.
create or replace function pgq.stream_finish(
    queue text, consumer text, owner text, batch bigint,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_finish.queue);
    v_stream pgq.stream;
    v_lease_id bigint;
    v_count int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'batches of a stream are finished under READ COMMITTED only'
            using errcode = 'serialization_failure',
                  hint = 'An old snapshot may not show a batch that was claimed meanwhile.';
    end if;
    select s.* into v_stream from pgq.stream s
    where s.queue_id = v_queue.queue_id and s.consumer = stream_finish.consumer for update;
    if v_stream.owner is distinct from stream_finish.owner or v_stream.owner is null then
        raise exception 'consumer "%" of queue "%" has another owner now',
            consumer, stream_finish.queue
            using errcode = 'object_in_use',
                  hint = 'The owner did not renew it within the timeout, and another one took it.';
    end if;
    if stream_finish.batch is null or stream_finish.batch <= v_stream.batch then
        return 0;
    end if;
    for v_lease_id in
        select distinct l.lease_id
        from generate_series(v_stream.batch + 1, least(stream_finish.batch, v_stream.batch + 1000))
            b
        join pgq.lease l on l.queue_id = v_queue.queue_id
            and l.key = pgq._batch_key(stream_finish.consumer, b)
    loop
        v_count := v_count + pgq.ack(v_lease_id);
    end loop;
    update pgq.stream s set batch = stream_finish.batch
    where s.queue_id = v_queue.queue_id and s.consumer = stream_finish.consumer;
    return v_count;
end
$$;
comment on function pgq.stream_finish(text, text, text, bigint, pgq.caller) is
    'Acknowledges the remaining messages of a stream''s batches up to and including this one. '
    'Returns how many; 0 if the batches were finished before. 55006 if the name has another '
    'owner.';
