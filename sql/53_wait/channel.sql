-- The NOTIFY channel of a queue.
create or replace function pgq.channel(queue text, caller pgq.caller default current_user)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', channel.queue);
begin
    return v_queue.channel;
end
$$;
comment on function pgq.channel(text, pgq.caller) is
    'The channel on which consumers LISTEN for messages of the queue, an identifier such as '
    'pgq_0d2c... Notifications have no payload. The name is random, so that only consumers of the '
    'queue know it. It stays the same until the queue is dropped.';
