-- What a consumer of the queue has to listen for, besides the name.
create or replace function pgq.signal(topic text, caller pgq.caller default current_user)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', signal.topic);
begin
    return v_queue.signal::text;
end
$$;
comment on function pgq.signal(text, pgq.caller) is
    'What wakes the consumers of a queue: the payload of NOTIFY, channel pgq, is the name of the '
    'queue, or this, as soon as pgq.grant_queue has given a right to any role. It tells nothing to '
    'others, who can listen too.';
revoke all on function pgq.signal(text, pgq.caller) from public;
