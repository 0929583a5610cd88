-- Acquires a consumer's name, or renews it: the owner calls this periodically while it runs.
create or replace function pgq.stream_begin(
    queue text, consumer text, owner text, timeout interval default '30 s',
    lease interval default null, caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_begin.queue);
    v_now timestamptz := pgq.now();
    v_stream pgq.stream;
begin
    if consumer is null or consumer = '' or length(consumer) > 200 or owner is null then
        raise exception 'a stream needs a consumer of at most 200 characters, and an owner'
            using errcode = 'invalid_parameter_value',
                  hint = 'The consumer is a name that stays; the owner identifies the process.';
    end if;
    if timeout is null or timeout <= interval '0' or stream_begin.lease <= interval '0' then
        raise exception 'timeout and lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'An owner that does not renew it within the timeout loses the name.';
    end if;
    insert into pgq.stream as s (queue_id, consumer, batch, owner, until)
    values (v_queue.queue_id, stream_begin.consumer, 0, stream_begin.owner, v_now + timeout)
    on conflict on constraint stream_pkey do update
    set owner = excluded.owner, until = excluded.until
    where s.owner is null or s.owner = excluded.owner or s.until <= v_now
    returning s.* into v_stream;
    if not found then
        select s.* into v_stream from pgq.stream s
        where s.queue_id = v_queue.queue_id and s.consumer = stream_begin.consumer;
        raise exception 'consumer "%" of queue "%" is in use', consumer, stream_begin.queue
            using errcode = 'object_in_use',
                  detail = format('%s has it until %s, and renews it.', v_stream.owner,
                                  v_stream.until),
                  hint = 'Stop the other one, or give this one a name of its own.';
    end if;
    if stream_begin.lease is not null then
        update pgq.lease l set until = v_now + stream_begin.lease
        where l.queue_id = v_queue.queue_id
          and l.key = pgq._batch_key(stream_begin.consumer, v_stream.batch + 1)
          and l.until < v_now + stream_begin.lease;
    end if;
    return v_stream.batch;
end
$$;
comment on function pgq.stream_begin(text, text, text, interval, interval, pgq.caller) is
    'Acquires the name of a consumer that works in numbered batches. Returns the last batch that '
    'it has finished (0: none). The owner repeats the call before the timeout ends; with a lease '
    'duration, this also extends the current batch. 55006 if the name has another owner.';
