-- Finishes the earlier batches and claims this one. A repeated call returns the same messages until
-- the batch is finished.
create or replace function pgq.stream_claim(
    queue text, consumer text, owner text, batch bigint, filter jsonb default null,
    n int default 1000, lease interval default null,
    runs boolean default false, caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', stream_claim.queue);
    end if;
    perform pgq.stream_finish(stream_claim.queue, stream_claim.consumer, stream_claim.owner,
                              stream_claim.batch - 1);
    if stream_claim.batch is null or exists (
        select from pgq.stream s join pgq.queue q on q.queue_id = s.queue_id
        where q.name = stream_claim.queue and s.consumer = stream_claim.consumer
          and s.batch >= stream_claim.batch)
    then
        raise exception 'batch % of consumer "%" is finished', stream_claim.batch,
            stream_claim.consumer
            using errcode = 'QU003',
                  hint = 'The checkpoint is older than what the consumer has acknowledged: with '
                      'failOnDataLoss=false Spark continues after that.';
    end if;
    perform pgq._flush();
    return query
        select h.lease_id, h.size
        from pgq.hold(stream_claim.queue,
                      pgq._batch_key(stream_claim.consumer, stream_claim.batch),
                      stream_claim.filter, stream_claim.n, stream_claim.lease,
                      stream_claim.runs) h;
end
$$;
comment on function pgq.stream_claim(
    text, text, text, bigint, jsonb, int, interval, boolean, pgq.caller) is
    'Finishes the earlier batches of a stream, claims this one, and returns its lease id and '
    'size; no row if there is nothing to claim. A repeated call returns the same messages until '
    'the batch is finished. Without a lease duration the lease never expires. With runs, a batch '
    'also has the messages after the head of an ordering group, if they match and have the same '
    'priority. Process them in the order of their ids. If one fails, the messages after it return '
    'to the queue. QU003 if the batch is finished, 55006 if the name has another owner.';
