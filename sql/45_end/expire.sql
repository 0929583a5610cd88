-- Ends expired messages: dead letters, or discarded, by the policy of the queue.
create or replace function pgq._expire(
    queue pgq.queue, ids int8multirange, attempt int, failures jsonb, grouped boolean,
    now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue.on_expiry = 'dead_letter' then
        -- A failed dead-letter write must neither lose the messages nor stop the claim.
        begin
            perform pgq._bury_set(
                queue.queue_id, ids, attempt, 'expired', null, null, failures, null, null, now);
        exception
            when query_canceled or admin_shutdown or crash_shutdown then
                raise;
            when others then
                raise warning 'expired messages % could not become dead letters: %', ids, sqlerrm
                    using errcode = sqlstate,
                          hint = 'They are kept, and it is tried again in a minute.';
                insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
                values (queue.queue_id, now + interval '1 min', attempt, pgq._set_size(ids),
                        grouped, failures, ids);
                return;
        end;
    end if;
    insert into pgq.journal (at, queue_id, event, attempt, size, ids)
    values (now, queue.queue_id, 'expire', attempt, pgq._set_size(ids), ids);
    insert into pgq.outcome (queue_id, event, reason, size)
    values (queue.queue_id, 'expire', case queue.on_expiry when 'dead_letter' then 'expired' end,
            pgq._set_size(ids));
    if grouped and (queue.on_expiry = 'discard' or queue.on_dead = 'release') then
        perform pgq._advance_groups(queue, ids, now);
    end if;
end
$$;
comment on function pgq._expire(pgq.queue, int8multirange, int, jsonb, boolean, timestamptz) is
    'Ends expired messages.';
