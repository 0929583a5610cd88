-- How many messages of a queue can be claimed now, exactly; a sum over sets, not over messages.
create or replace function pgq.backlog(
    queue text, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', backlog.queue);
begin
    return (select coalesce(sum(r.size), 0) from pgq.ready r where r.queue_id = v_queue.queue_id);
end
$$;
comment on function pgq.backlog(text, pgq.caller) is
    'The exact number of messages of a queue that are ready to be claimed. Claims nothing. Works '
    'on a standby.';
