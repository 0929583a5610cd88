-- This message, if a queue gets it as its first one with the dedup key; else the message that was
-- first. Queues that replace or postpone get the message in any case.
create or replace function pgq._key_owner(topic text, dedup_key text, message_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_first bigint;
begin
    while pgq._take_key(topic, dedup_key, message_id) = '{}'
        and not (pgq._route_of(topic)).replacing
    loop
        select max(d.message_id) into v_first
        from pgq._receivers(pgq._route_of(_key_owner.topic)) u
        join pgq.dedup d on d.queue_id = u.queue_id
        where d.topic = _key_owner.topic and d.dedup_key = _key_owner.dedup_key;
        if v_first is not null then
            return v_first;
        end if;
        -- The key has expired, and was deleted meanwhile.
    end loop;
    return message_id;
end
$$;
comment on function pgq._key_owner(text, text, bigint) is 'The message that has the dedup key.';
