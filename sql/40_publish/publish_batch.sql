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
    deliver_at timestamptz default null,
    caller pgq.caller default current_user
) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_count int := cardinality(payloads);
begin
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
    return query select unnest(pgq._publish(
        caller, topic, payloads, headers, priority, delay, expires_in, sender, recipient, reply_to,
        correlation_id, group_key, dedup_keys, deliver_at));
end
$$;
comment on function pgq.publish_batch(
    text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    timestamptz, pgq.caller) is
    'Publishes many messages of one topic in one statement, all or none. Returns their ids in the '
    'given order.';
