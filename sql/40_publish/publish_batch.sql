-- Publishes many messages in one statement; ids in the order given.
create or replace function pgq.publish_batch(
    topic text,
    payloads jsonb[],
    headers jsonb[] default null,
    priority int default 0,
    delay interval default null,
    expires_in interval default null,
    sender text default null,
    recipient text default null,
    reply_to text default null,
    correlation_id text default null,
    group_key text default null,
    dedup_keys text[] default null,
    caller pgq.caller default current_user
) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := cardinality(payloads);
    -- Computed once: messages that become due or expire together share their sets.
    v_now timestamptz := pgq.now();
    v_ids bigint[];
    v_firsts bigint[];
    v_key record;
    v_publisher text;
begin
    if topic is null then
        perform pgq._check_topic(topic);
    end if;
    if not pgq._is_owner(caller) then
        -- The trigger asks for its rights; before that, a key would tell something.
        v_publisher := caller::text;
        if v_publisher is null or dedup_keys is not null then
            perform pgq._require_topic(caller, topic);
        end if;
    end if;
    if v_count is null or v_count not between 1 and 100000 or array_ndims(payloads) <> 1 then
        raise exception 'a batch has 1 to 100000 payloads, not %', coalesce(v_count, 0)
            using errcode = 'invalid_parameter_value',
                  hint = 'Split larger batches, or COPY into pgq.message.';
    end if;
    if cardinality(headers) <> v_count or cardinality(dedup_keys) <> v_count then
        raise exception 'headers and dedup_keys need one element for each payload'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave them out, or use null for messages without.';
    end if;
    if array_position(payloads, null) is not null or priority is null
       or priority not between -1000 and 1000 or delay < interval '0'
       or expires_in <= interval '0'
    then
        perform pgq._refuse_publish(
            array_position(payloads, null) is not null, priority, delay);
    end if;
    if dedup_keys is not null then
        -- Each message has to know whether it is the first before it is written. Keys are taken
        -- in one order by everybody, so that two batches cannot wait for each other.
        v_ids := array(select nextval('pgq.message_id') from generate_series(1, v_count));
        v_firsts := v_ids;
        for v_key in
            select u.key, u.i from unnest(dedup_keys) with ordinality u (key, i)
            where u.key is not null order by u.key, u.i
        loop
            v_firsts[v_key.i] := pgq._key_owner(topic, v_key.key, v_ids[v_key.i]);
        end loop;
        insert into pgq.message (
            id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
            group_key, dedup_key, deliver_at, expires_at, publisher)
        select u.id, publish_batch.topic, publish_batch.priority, coalesce(u.header, '{}'),
               u.payload, publish_batch.sender, publish_batch.recipient, publish_batch.reply_to,
               publish_batch.correlation_id, publish_batch.group_key, u.key,
               v_now + publish_batch.delay, v_now + publish_batch.expires_in, v_publisher
        from unnest(v_ids, v_firsts, publish_batch.payloads, publish_batch.headers,
                    publish_batch.dedup_keys) u (id, first, payload, header, key)
        where u.id = u.first;
        return query select unnest(v_firsts);
        return;
    end if;
    return query
        insert into pgq.message (
            topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
            group_key, deliver_at, expires_at, publisher)
        select publish_batch.topic, publish_batch.priority, coalesce(u.header, '{}'), u.payload,
               publish_batch.sender, publish_batch.recipient, publish_batch.reply_to,
               publish_batch.correlation_id, publish_batch.group_key,
               v_now + publish_batch.delay, v_now + publish_batch.expires_in, v_publisher
        from unnest(publish_batch.payloads, publish_batch.headers) u (payload, header)
        returning id;
end
$$;
comment on function pgq.publish_batch(
    text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    pgq.caller) is
    'Publishes many messages of one topic in one statement, all or none, and returns their ids in '
    'the order given.';
revoke all on function pgq.publish_batch(
    text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    pgq.caller)
    from public;
