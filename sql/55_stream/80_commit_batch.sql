-- Finishes, in the caller's transaction, the batches that an execution of an engine has read; false
-- if they were finished before.
create or replace function pgq.commit_batch(
    reader text default null, wrote jsonb default null, writer text default null,
    epoch bigint default null, query text default null, anew boolean default false,
    caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_batch record;
    v_lease record;
    v_is_known boolean := false;
    v_is_new boolean := false;
begin
    for v_batch in
        select l.*, s.batch as finished, q.name as queue
        from pgq.lineage l
        join pgq.stream s on s.queue_id = l.queue_id and s.consumer = l.consumer
        join pgq.queue q on q.queue_id = l.queue_id
        where l.reader = commit_batch.reader
        order by l.queue_id, l.consumer
        for update of s
    loop
        if not pgq._is_owner(caller) then
            perform pgq._require(caller, 'consume', v_batch.queue);
        end if;
        v_is_known := true;
        continue when v_batch.batch <= v_batch.finished;
        select l.lease_id, sum(l.size) as size into v_lease from pgq.lease l
        where l.queue_id = v_batch.queue_id
          and l.key = pgq._batch_key(v_batch.consumer, v_batch.batch)
        group by l.lease_id;
        if v_lease.size is distinct from v_batch.size then
            raise exception 'batch % of consumer "%" has lost % of % messages', v_batch.batch,
                v_batch.consumer, v_batch.size - coalesce(v_lease.size, 0), v_batch.size
                using errcode = 'QU003',
                      detail = 'Its lease was broken, has expired, or messages were given back '
                          'since they were read.',
                      hint = 'Read the batch again: nothing of it was committed.';
        end if;
        perform pgq.ack(v_lease.lease_id);
        update pgq.stream s set batch = v_batch.batch, committed = v_batch.batch
        where s.queue_id = v_batch.queue_id and s.consumer = v_batch.consumer;
        update pgq.lineage l set committed_at = pgq.now(), wrote = commit_batch.wrote
        where l.reader = v_batch.reader and l.queue_id = v_batch.queue_id
          and l.consumer = v_batch.consumer;
        v_is_new := true;
        perform pgq._flush();
    end loop;
    if v_is_known then
        return v_is_new;
    end if;
    if writer is null or epoch is null then
        raise exception 'nothing was read from a queue to be committed'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'A batch of a stream out of a queue is committed with it. Anything else '
                      'needs a writer and an epoch, to be written once.';
    end if;
    return pgq._begin_epoch(writer, epoch, query, anew, caller);
end
$$;
comment on function pgq.commit_batch(
    text, jsonb, text, bigint, text, boolean, pgq.caller) is
    'Finishes the batches that a reader has recorded with pgq.stream_read: it acknowledges their '
    'messages in the caller''s transaction. Write the results in the same transaction, so that '
    'both happen or neither. Returns false if the batches were finished before; then write '
    'nothing. If the reader has read no queue, it records an epoch of a writer instead, as '
    'pgq.publish_staged does. QU003 if a batch has lost messages since it was read.';
