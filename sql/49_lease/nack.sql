-- Reports a failure: messages are retried after a delay, or dead letters after the last attempt.
create or replace function pgq.nack(
    lease_id bigint,
    ids bigint[] default null,
    delay interval default null,
    error text default null,
    details jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_part pgq.lease;
    v_count int := 0;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, nack.lease_id);
    end if;
    if delay < interval '0' then
        raise exception 'delay must not be negative'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for the queue''s backoff, or use ''0'' to retry at once.';
    end if;
    for v_part in select * from pgq._end_lease(nack.lease_id, nack.ids) loop
        select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
        perform pgq._retry(v_queue, v_part, 'nack', delay, error, details, v_now);
        v_count := v_count + v_part.size;
    end loop;
    return v_count;
end
$$;
comment on function pgq.nack(bigint, bigint[], interval, text, jsonb, pgq.caller) is
    'Returns messages of a lease as failed. They are retried after the delay (null: the queue''s '
    'backoff), or become dead letters if this was the last attempt. Returns how many. QU003 if '
    'the lease does not hold them.';
