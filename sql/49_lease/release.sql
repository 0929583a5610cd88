-- Releases messages as if they had not been claimed: the attempt is not counted.
create or replace function pgq.release(
    lease_id bigint,
    ids bigint[] default null,
    delay interval default '0',
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_part pgq.lease;
    v_count int := 0;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, release.lease_id);
    end if;
    if delay is null or delay < interval '0' then
        raise exception 'delay must not be negative or null'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out to let the messages be claimed at once.';
    end if;
    for v_part in select * from pgq._end_lease(release.lease_id, release.ids) loop
        insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                                 client, ids)
        values (v_now, v_part.queue_id, 'release', v_part.attempt, v_part.size, v_part.lease_id,
                v_part.claimed_at, v_part.holder, v_part.client, v_part.ids);
        v_count := v_count + v_part.size;
        select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
        continue when not found;  -- the queue was dropped, and its messages with it
        insert into pgq.outcome (queue_id, event, size)
        values (v_part.queue_id, 'release', v_part.size);
        if v_part.runs then
            v_part := pgq._return_runs(v_part, null, delay, v_now);
            continue when v_part.size = 0;
        end if;
        if delay > interval '0' then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_part.queue_id, v_now + delay, v_part.attempt - 1, v_part.size,
                    v_part.grouped, v_part.failures, v_part.ids);
            perform pgq._wake(v_part.queue_id);
        else
            perform pgq._enqueue(
                v_queue, v_part.ids, v_part.attempt - 1, v_part.failures, v_part.grouped);
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq.release(bigint, bigint[], interval, pgq.caller) is
    'Releases messages of a lease that did not fail. The attempt is not counted, and they can be '
    'claimed again immediately, or after the delay. For a consumer that stops, or that wants '
    'other messages. Returns how many. QU003 if the lease does not hold them.';
