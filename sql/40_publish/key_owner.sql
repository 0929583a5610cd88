-- The message that has the dedup key: this one if it is the first, else the one that was.
create or replace function pgq._key_owner(topic text, dedup_key text, message_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_first bigint;
begin
    while not pgq._first_of_key(topic, dedup_key, message_id) loop
        select d.message_id into v_first from pgq.dedup d
        where d.topic = _key_owner.topic and d.dedup_key = _key_owner.dedup_key;
        if found then
            return v_first;
        end if;
        -- Its time has passed, and it was forgotten meanwhile.
    end loop;
    return message_id;
end
$$;
comment on function pgq._key_owner(text, text, bigint) is 'The message that has the dedup key.';
revoke all on function pgq._key_owner(text, text, bigint) from public;
