-- Makes messages dead letters now, whatever attempts they have left.
create or replace function pgq.bury(
    lease_id bigint,
    ids bigint[] default null,
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
        perform pgq._require_lease(caller, bury.lease_id);
    end if;
    for v_part in select * from pgq._end_lease(bury.lease_id, bury.ids) loop
        select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
        perform pgq._retry(v_queue, v_part, 'bury', null, error, details, v_now);
        v_count := v_count + v_part.size;
    end loop;
    return v_count;
end
$$;
comment on function pgq.bury(bigint, bigint[], text, jsonb, pgq.caller) is
    'Makes messages of a lease dead letters, even if they have attempts left. Returns how many. '
    'QU003 if the lease does not hold them.';
