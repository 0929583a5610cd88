-- Takes a dedup key for a message and returns null, or locks and returns the row of another message
-- that has it. Waits for another transaction that publishes the key, to know which is first.
create or replace function pgq._lock_key(
    queue_id int, topic text, dedup_key text, message_id bigint, due_at timestamptz,
    until timestamptz
) returns pgq.dedup
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key pgq.dedup;
begin
    loop
        insert into pgq.dedup (queue_id, topic, dedup_key, message_id, until, due_at)
        values (_lock_key.queue_id, _lock_key.topic, _lock_key.dedup_key, _lock_key.message_id,
                _lock_key.until, _lock_key.due_at)
        on conflict on constraint dedup_pkey do nothing;
        exit when found;
        select d.* into v_key from pgq.dedup d
        where d.queue_id = _lock_key.queue_id and d.topic = _lock_key.topic
          and d.dedup_key = _lock_key.dedup_key
        for update;
        exit when found;  -- else it was deleted meanwhile
    end loop;
    return v_key;
end
$$;
comment on function pgq._lock_key(int, text, text, bigint, timestamptz, timestamptz) is
    'Takes a dedup key for a message, or locks it.';
