-- Acknowledges a message and stores the result of the work.
create or replace function pgq.finish(
    lease_id bigint, id bigint, result jsonb default null, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_part pgq.lease;
    v_queue pgq.queue;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, finish.lease_id);
    end if;
    if id is null then
        raise exception 'finish needs the id of a message'
            using errcode = 'invalid_parameter_value',
                  hint = 'To end all that a lease holds, without a result, use pgq.ack(lease_id).';
    end if;
    for v_part in select * from pgq._end_lease(finish.lease_id, array[finish.id]) loop
        -- Even if the queue does not record acks: this row holds the result.
        insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                                 client, result, ids)
        values (v_now, v_part.queue_id, 'ack', v_part.attempt, 1, v_part.lease_id,
                v_part.claimed_at, v_part.holder, v_part.client,
                coalesce(finish.result, 'null'), v_part.ids);
        if v_part.grouped then
            select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
            if found then
                perform pgq._advance_lease(v_queue, v_part, v_now);
            end if;
        end if;
        perform pgq._wake_results(v_part.ids);
    end loop;
end
$$;
comment on function pgq.finish(bigint, bigint, jsonb, pgq.caller) is
    'Acknowledges one message of a lease and stores a result. pgq.result reads it, as long as the '
    'log keeps messages. QU003 if the lease does not hold the message; then nothing has changed.';
