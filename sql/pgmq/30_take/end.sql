-- Ends messages: the common part of delete, archive and purge. Returns them as pgmq._take does.
create or replace function pgmq._end(
    queue_name text, msg_ids bigint[], caller pgq.caller default current_user
) returns setof pgq.lease
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_now timestamptz := pgq.now();
    v_part pgq.lease;
begin
    for v_part in select * from pgmq._take(queue_name, msg_ids) loop
        if v_part.journal or v_part.lease_id is null then
            insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                     holder, client, ids)
            values (v_now, v_part.queue_id,
                    case when v_part.lease_id is null then 'discard' else 'ack' end,
                    v_part.attempt, v_part.size, v_part.lease_id, v_part.claimed_at,
                    v_part.holder, v_part.client, v_part.ids);
        end if;
        if v_part.grouped then
            perform pgq._advance_lease(v_queue, v_part, v_now);
        end if;
        return next v_part;
    end loop;
end
$$;
comment on function pgmq._end(text, bigint[], pgq.caller) is 'Ends messages, wherever they are.';
