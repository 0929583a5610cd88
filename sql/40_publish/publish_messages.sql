-- Publishes n messages of a topic and returns their ids in the order given; for a duplicate, the id
-- of the first message with its dedup key. The common part of publish and publish_batch.
create or replace function pgq._publish(
    caller name, topic text, payloads jsonb[], headers jsonb[], priority int, delay interval,
    expires_in interval, sender text, recipient text, reply_to text, correlation_id text,
    group_key text, dedup_keys text[], deliver_at timestamptz
) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_publisher text;
    v_xid xid8;
    v_plain boolean;
    v_route pgq.route;
    v_ids bigint[];
    v_firsts bigint[];
    v_now timestamptz;
    v_key record;
begin
    if num_nonnulls(topic, priority) < 2 or array_position(payloads, null) is not null
       or priority not between -1000 and 1000 or delay < interval '0'
       or expires_in <= interval '0' or num_nonnulls(delay, deliver_at) = 2
    then
        perform pgq._refuse_publish(topic, payloads, priority, delay, deliver_at);
    end if;
    -- Rights before the route: errors must not reveal which topics exist.
    if not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, topic);
        v_publisher := caller::text;
    end if;
    -- Take a transaction id before the route is read: changes of a queue wait for older ones.
    v_xid := pg_current_xact_id();
    if cardinality(payloads) = 1 then
        v_ids := array[nextval('pgq.message_id')];
    else
        v_ids := array(
            select nextval('pgq.message_id') from generate_series(1, cardinality(payloads)));
    end if;
    v_plain := num_nonnulls(delay, expires_in, group_key, dedup_keys, deliver_at) = 0
        and current_setting('transaction_isolation') = 'read committed';
    if v_plain and cardinality(headers) = 1 then
        v_plain := pgq._is_plain(headers[1]);
    elsif v_plain then
        v_plain := not exists (
            select from (select unnest(_publish.headers) as header) h
            where not pgq._is_plain(h.header));
    end if;
    if v_plain then
        v_route := pgq._route_of(topic, v_publisher is null);
        if v_route.binding_ids = '{}' and v_route.fields is null and pgq._publish_direct(
            v_route, v_ids, payloads, headers, priority, sender, recipient, reply_to,
            correlation_id, v_publisher, v_xid)
        then
            return v_ids;
        end if;
    end if;

    v_firsts := v_ids;
    if dedup_keys is not null then
        -- All transactions take keys in the same order, so that two batches cannot deadlock.
        for v_key in
            select u.key, u.i from unnest(dedup_keys) with ordinality u (key, i)
            where u.key is not null order by u.key, u.i
        loop
            v_firsts[v_key.i] := pgq._key_owner(topic, v_key.key, v_ids[v_key.i]);
        end loop;
    end if;
    v_now := pgq.now();  -- once, so that messages that become due or expire together share rows
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, publisher)
    select u.id, _publish.topic, _publish.priority, coalesce(u.header, '{}'), u.payload,
           _publish.sender, _publish.recipient, _publish.reply_to, _publish.correlation_id,
           _publish.group_key, u.key, coalesce(_publish.deliver_at, v_now + _publish.delay),
           v_now + _publish.expires_in, v_publisher
    from unnest(v_ids, v_firsts, payloads, _publish.headers, dedup_keys)
        u (id, first, payload, header, key)
    where u.id = u.first;
    if dedup_keys is not null then
        v_firsts := pgq._key_holders(topic, dedup_keys, v_firsts);
    end if;
    return v_firsts;
end
$$;
comment on function pgq._publish(
    name, text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    timestamptz) is
    'Publishes messages of one topic and returns their ids.';
