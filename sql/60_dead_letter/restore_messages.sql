-- Ensures that the messages of dead letters are in the log, and returns their ids in that order.
-- With a patch they are new messages, because a message in the log never changes.
create or replace function pgq._restore_messages(letters bigint[], patch jsonb) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
    v_new boolean := patch is not null;
begin
    -- Finished messages become unfinished again: their era must not be truncated meanwhile.
    perform pgq._share_lock('era');
    -- The log may no longer have the message; the dead letter has all of it. Another queue may
    -- replay the same message at this moment: the lock makes one wait for the other.
    if not v_new and exists (
        select from pgq.letter d
        where d.dead_letter_id = any (letters)
          and not exists (select from pgq.message m where m.id = d.message_id))
    then
        perform pgq._refuse_snapshot();
        perform pgq._lock('replay');
    end if;
    v_ids := array(
        select case when v_new then nextval('pgq.message_id') else d.message_id end
        from unnest(letters) with ordinality u (id, i)
        join pgq.letter d on d.dead_letter_id = u.id order by u.i);
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, published_at, publisher)
    select u.message_id, d.topic, d.priority, d.headers,
           case when v_new then pgq._merge_patch(d.payload, patch) else d.payload end, d.sender,
           d.recipient, d.reply_to, d.correlation_id, d.group_key, d.dedup_key, 'infinity',
           d.expires_at, d.published_at, null
    from unnest(letters, v_ids) u (id, message_id)
    join pgq.letter d on d.dead_letter_id = u.id
    where not exists (select from pgq.message m where m.id = u.message_id);
    return v_ids;
end
$$;
comment on function pgq._restore_messages(bigint[], jsonb) is
    'Ensures that the messages of dead letters are in the log.';
