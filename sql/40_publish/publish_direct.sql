-- Fast path: messages that need nothing special, for queues that receive all of the topic. Writes
-- log and ready rows itself; false, and nothing written, if the route changes meanwhile. The
-- trigger and its transition table cost a third of a batch of ten. The log row goes straight into
-- the slot of the current era, which has no INSERT trigger.
--
-- unnest() is in the select list, here and in pgq._deliver_direct: in FROM, a function's rows are
-- first stored as a whole, which takes a tenth of the instructions of a batch of 1000.
create or replace function pgq._publish_direct(
    route pgq.route, ids bigint[], payloads jsonb[], headers jsonb[], priority int, sender text,
    recipient text, reply_to text, correlation_id text, publisher text, xid xid8
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := ids[1];
    v_high bigint := ids[cardinality(ids)];
    v_era bigint := pg_sequence_last_value('pgq.era_number');
begin
    case v_era % 3
        when 0 then
            insert into pgq.message_0 (
                id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                correlation_id, published_at, publisher)
            select u.id, 0, route.topic, _publish_direct.priority, coalesce(u.header, '{}'),
                   u.payload, _publish_direct.sender, _publish_direct.recipient,
                   _publish_direct.reply_to, _publish_direct.correlation_id, now(),
                   _publish_direct.publisher
            from (select unnest(_publish_direct.ids) as id, unnest(payloads) as payload,
                         unnest(_publish_direct.headers) as header) u;
        when 1 then
            insert into pgq.message_1 (
                id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                correlation_id, published_at, publisher)
            select u.id, 1, route.topic, _publish_direct.priority, coalesce(u.header, '{}'),
                   u.payload, _publish_direct.sender, _publish_direct.recipient,
                   _publish_direct.reply_to, _publish_direct.correlation_id, now(),
                   _publish_direct.publisher
            from (select unnest(_publish_direct.ids) as id, unnest(payloads) as payload,
                         unnest(_publish_direct.headers) as header) u;
        else
            insert into pgq.message_2 (
                id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                correlation_id, published_at, publisher)
            select u.id, 2, route.topic, _publish_direct.priority, coalesce(u.header, '{}'),
                   u.payload, _publish_direct.sender, _publish_direct.recipient,
                   _publish_direct.reply_to, _publish_direct.correlation_id, now(),
                   _publish_direct.publisher
            from (select unnest(_publish_direct.ids) as id, unnest(payloads) as payload,
                         unnest(_publish_direct.headers) as header) u;
    end case;
    -- The slot is locked now: if its era is still the current one, an archiver waits for it.
    if pg_sequence_last_value('pgq.era_number') <> v_era then
        perform pgq._copy_late(_publish_direct.ids);
    end if;
    if route.laned then
        perform pgq._deliver_direct(q, _publish_direct.ids, payloads, _publish_direct.headers,
                                    route.topic, _publish_direct.priority, _publish_direct.sender,
                                    _publish_direct.recipient, _publish_direct.reply_to,
                                    _publish_direct.correlation_id)
        from pgq.queue q
        where q.queue_id = any (route.queue_ids)
          and route.version = (select sum(s.version) from pgq.routing s);
    elsif v_high - v_low + 1 = cardinality(ids) then
        insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
        select q.queue_id, pgq._rank(_publish_direct.priority, false, i), 0,
               least(q.set_size, v_high - i + 1), _publish_direct.xid, false,
               int8multirange(int8range(i, least(i + q.set_size, v_high + 1)))
        from pgq.queue q
        cross join lateral generate_series(v_low, v_high, q.set_size) i
        where q.queue_id = any (route.queue_ids)
          and route.version = (select sum(s.version) from pgq.routing s);
    else
        perform pgq._add_ready(q.queue_id, null, _publish_direct.priority, false, 0, null, null,
                               false, _publish_direct.ids, q.set_size)
        from pgq.queue q
        where q.queue_id = any (route.queue_ids)
          and route.version = (select sum(s.version) from pgq.routing s);
    end if;
    -- The log may have been locked by a subscription that adds older messages: then the route has
    -- changed, and these messages are new for it.
    if not found then  -- two IFs, because the second is a query of its own
        if route.version <> (select sum(s.version) from pgq.routing s) then
            delete from pgq.message m where m.id = any (_publish_direct.ids);
            return false;
        end if;
    end if;
    if exists (select from pgq.waiter) then
        perform pgq._wake(q) from unnest(route.queue_ids) q;
    end if;
    return true;
end
$$;
comment on function pgq._publish_direct(
    pgq.route, bigint[], jsonb[], jsonb[], int, text, text, text, text, text, xid8) is
    'Publishes messages without special properties, without the trigger.';
