-- Where the consumers of a queue are notified.
create or replace function pgq.channel(topic text, caller pgq.caller default current_user)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', channel.topic);
begin
    return v_queue.channel;
end
$$;
comment on function pgq.channel(text, pgq.caller) is
    'The channel to LISTEN to, to be woken when the queue may have messages: an identifier such as '
    'pgq_0d2c..., without a payload. It is random, so that only consumers of the queue know it. '
    'It stays the same until the queue is dropped.';
