-- Publishes one message and returns its id.
--
-- Fast path: a message that needs nothing special, for queues that receive all of the topic, is
-- written here as pgq._publish_direct does it for many. Without arrays and two more function calls
-- it takes three fifths of the instructions (callgrind: 265k instead of 431k).
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
    deliver_at timestamptz default null,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_id bigint;
    v_xid xid8;
    v_era bigint;
    v_version bigint;
    v_queue_ids int[];
    v_laned boolean;
begin
    if (num_nonnulls(topic, payload) = 2 and priority between -1000 and 1000
        and num_nonnulls(delay, expires_in, group_key, dedup_key, deliver_at) = 0
        and pgq._is_plain(headers) and caller = current_user
        and current_setting('transaction_isolation') = 'read committed')
    then
        v_xid := pg_current_xact_id();  -- before the route is read: see pgq._publish
        -- The latest route of the topic may be stale. The insertion of the ready rows finds out: to
        -- read the version here as well would cost 8 % of a publish.
        select case when r.binding_ids = '{}' and r.fields is null then r.version end,
               r.queue_ids, r.laned
        into v_version, v_queue_ids, v_laned
        from pgq.route r
        where r.topic = publish.topic
        order by r.version desc limit 1;
    end if;
    if v_version is not null then
        v_id := nextval('pgq.message_id');
        v_era := pg_sequence_last_value('pgq.era_number');
        case v_era % 3
            when 0 then
                insert into pgq.message_0 (
                    id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                    correlation_id, published_at, publisher)
                values (v_id, 0, topic, priority, coalesce(headers, '{}'), payload, sender,
                        recipient, reply_to, correlation_id, now(), null);
            when 1 then
                insert into pgq.message_1 (
                    id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                    correlation_id, published_at, publisher)
                values (v_id, 1, topic, priority, coalesce(headers, '{}'), payload, sender,
                        recipient, reply_to, correlation_id, now(), null);
            else
                insert into pgq.message_2 (
                    id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                    correlation_id, published_at, publisher)
                values (v_id, 2, topic, priority, coalesce(headers, '{}'), payload, sender,
                        recipient, reply_to, correlation_id, now(), null);
        end case;
        if pg_sequence_last_value('pgq.era_number') <> v_era then
            perform pgq._copy_late(array[v_id]);
        end if;
        if v_laned then
            perform pgq._deliver_direct(q, array[v_id], array[payload], array[headers], topic,
                                        priority, sender, recipient, reply_to, correlation_id)
            from pgq.queue q
            where q.queue_id = any (v_queue_ids)
              and v_version = (select sum(s.version) from pgq.routing s)
              and (not exists (select from pgq.waiter) or pgq._wake(q.queue_id) is not null);
        else
            insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
            select q, pgq._rank(publish.priority, false, v_id), 0, 1, v_xid, false,
                   int8multirange(int8range(v_id, v_id + 1))
            from unnest(v_queue_ids) q
            where v_version = (select sum(s.version) from pgq.routing s)
              and (not exists (select from pgq.waiter) or pgq._wake(q) is not null);
        end if;
        -- Two IFs, because the second is a query of its own.
        if found then
            return v_id;
        elsif v_version = (select sum(s.version) from pgq.routing s) then
            return v_id;  -- no queue receives the topic now
        end if;
        delete from pgq.message m where m.id = v_id;  -- the route is stale
    end if;
    return (pgq._publish(
        caller, topic, array[payload], array[headers], priority, delay, expires_in, sender,
        recipient, reply_to, correlation_id, group_key,
        case when dedup_key is not null then array[dedup_key] end, deliver_at))[1];
end
$$;
comment on function pgq.publish(
    text, jsonb, jsonb, int, interval, interval, text, text, text, text, text, text, timestamptz,
    pgq.caller) is
    'Publishes one message in the caller''s transaction and returns its id. If a queue has had '
    'the dedup_key with this topic within its window, it does not get the message. If no queue '
    'gets it, nothing is stored, and the id is that of the earlier message. A queue whose option '
    'dedup is replace or postpone replaces or postpones a waiting message with the key. The '
    'message is delivered after the delay, or at the time deliver_at. If that time is infinity, '
    'the message is stored and never delivered.';
