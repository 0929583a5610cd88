-- Acknowledges messages of a lease; null: everything that the lease still holds.
create or replace function pgq.ack(
    lease_id bigint, ids bigint[] default null, caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz;
    v_queue_id int;
    v_attempt int;
    v_claimed_at timestamptz;
    v_holder text;
    v_client inet;
    v_ids int8multirange;
    v_journal boolean;
    v_flow bigint;
    v_part pgq.lease;
    v_queue pgq.queue;
    v_count int := 0;
begin
    if caller <> current_user then
        if not pgq._is_owner(caller) then
            perform pgq._require_lease(caller, ack.lease_id);
        end if;
    end if;
    if ids is null then
        -- Mostly a lease is one row, and no group waits for its end.
        delete from pgq.lease l
        where l.lease_id = ack.lease_id and l.part = 0 and not l.grouped
        returning l.queue_id, l.attempt, l.claimed_at, l.holder, l.client, l.ids, l.size, l.journal,
                  l.flow
        into v_queue_id, v_attempt, v_claimed_at, v_holder, v_client, v_ids, v_count, v_journal,
             v_flow;
        if v_count > 0 then
            if v_journal then
                insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                         holder, client, ids)
                values (pgq.now(), v_queue_id, 'ack', v_attempt, v_count, ack.lease_id,
                        v_claimed_at, v_holder, v_client, v_ids);
            end if;
            if v_flow is not null then
                perform pgq._wake(v_queue_id);  -- the limit has room again
            end if;
            return v_count;
        end if;
    end if;
    v_now := pgq.now();
    v_count := 0;
    for v_part in select * from pgq._end_lease(ack.lease_id, ack.ids) loop
        if v_part.journal then
            insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                     holder, client, ids)
            values (v_now, v_part.queue_id, 'ack', v_part.attempt, v_part.size, v_part.lease_id,
                    v_part.claimed_at, v_part.holder, v_part.client, v_part.ids);
        end if;
        v_count := v_count + v_part.size;
        if v_part.grouped then
            select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
            if found then
                perform pgq._advance_lease(v_queue, v_part, v_now);
            end if;
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq.ack(bigint, bigint[], pgq.caller) is
    'Acknowledges messages of a lease: they are done. Without ids: all messages that the lease '
    'still holds. Returns how many. QU003 if the lease does not hold them; then nothing has '
    'changed.';
