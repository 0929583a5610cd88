-- Publishes one message and returns its id.
create or replace function pgq.publish(
    topic text,
    payload jsonb,
    headers jsonb default '{}',
    priority int default 0,
    delay interval default null,
    expires_in interval default null,
    sender text default null,
    recipient text default null,
    reply_to text default null,
    correlation_id text default null,
    group_key text default null,
    dedup_key text default null,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := nextval('pgq.message_id');
    v_first bigint;
    v_publisher text;
begin
    -- Most messages need nothing special and go to known queues. The trigger that routes what comes
    -- into the log would cost as much again as both rows: these are written here, that of the log
    -- straight into its slot, where no trigger is. What turns out to be special goes the long way,
    -- and sessions that mostly publish such messages do not try.
    if num_nonnulls(topic, payload) = 2 and priority between -1000 and 1000
       and num_nonnulls(delay, expires_in, group_key, dedup_key) = 0
       and jsonb_typeof(headers) = 'object' and not headers ? 'route'
       and not headers @? '$.*.type() ? (@ == "array" || @ == "object")'
       and current_setting('pgq.special', true) is distinct from 'on'
       and current_setting('transaction_isolation') = 'read committed'
    then
        if not pgq._is_owner(caller) then
            perform pgq._require_topic(caller, topic);
            v_publisher := caller::text;
        end if;
        insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
        select q.queue_id, pgq._rank(publish.priority, false, v_id), 0, 1, pg_current_xact_id(),
               false, int8multirange(int8range(v_id, v_id + 1))
        from (
            select unnest((
                select r.queue_ids from pgq.route r
                where r.topic = publish.topic and r.version = (select s.version from pgq.routing s)
                  and r.binding_ids = '{}' limit 1)) as queue_id  -- it may be known twice
        ) q
        where not exists (select from pgq.waiter) or pgq._wake(q.queue_id) is not null;
        if found then
            case pg_sequence_last_value('pgq.era_number') % 3
                when 0 then
                    insert into pgq.message_0 (
                        id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                        correlation_id, publisher)
                    values (v_id, 0, topic, priority, headers, payload, sender, recipient, reply_to,
                            correlation_id, v_publisher);
                when 1 then
                    insert into pgq.message_1 (
                        id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                        correlation_id, publisher)
                    values (v_id, 1, topic, priority, headers, payload, sender, recipient, reply_to,
                            correlation_id, v_publisher);
                else
                    insert into pgq.message_2 (
                        id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                        correlation_id, publisher)
                    values (v_id, 2, topic, priority, headers, payload, sender, recipient, reply_to,
                            correlation_id, v_publisher);
            end case;
            return v_id;
        end if;
    end if;

    if topic is null then
        perform pgq._check_topic(topic);
    end if;
    if not pgq._is_owner(caller) then
        -- The trigger asks for its rights; before that, a key would tell something.
        v_publisher := caller::text;
        if v_publisher is null or dedup_key is not null then
            perform pgq._require_topic(caller, topic);
        end if;
    end if;
    if payload is null or priority is null or priority not between -1000 and 1000
       or delay < interval '0' or expires_in <= interval '0'
    then
        perform pgq._refuse_publish(payload is null, priority, delay);
    end if;
    if dedup_key is not null then
        v_first := pgq._key_owner(topic, dedup_key, v_id);
        if v_first <> v_id then
            return v_first;
        end if;
    end if;
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, publisher)
    values (
        v_id, publish.topic, publish.priority, coalesce(publish.headers, '{}'), publish.payload,
        publish.sender, publish.recipient, publish.reply_to, publish.correlation_id,
        publish.group_key, publish.dedup_key, pgq.now() + publish.delay,
        pgq.now() + publish.expires_in, v_publisher);
    return v_id;
end
$$;
comment on function pgq.publish(
    text, jsonb, jsonb, int, interval, interval, text, text, text, text, text, text, pgq.caller) is
    'Publishes one message in the caller''s transaction and returns its id. With a dedup_key that '
    'was used within the queue''s window it returns the first message''s id and delivers nothing.';
revoke all on function pgq.publish(
    text, jsonb, jsonb, int, interval, interval, text, text, text, text, text, text, pgq.caller)
    from public;
