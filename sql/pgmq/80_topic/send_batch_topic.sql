create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay timestamptz
) returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgmq.validate_routing_key(routing_key);
    perform pgmq._check_batch(msgs, headers);
    return query
        select b.queue_name, s
        from (
            select distinct r.queue_name from pgmq.test_routing(send_batch_topic.routing_key) r
            order by 1
        ) b
        cross join lateral pgmq.send_batch(
            b.queue_name, send_batch_topic.msgs, send_batch_topic.headers,
            send_batch_topic.delay) s;
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], timestamptz) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[])
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, null::jsonb[], null::timestamptz);
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[]) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], headers jsonb[])
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, headers, null::timestamptz);
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[]) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay int)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, null::jsonb[], pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], int) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(routing_key text, msgs jsonb[], delay timestamptz)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, null::jsonb[], delay);
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], timestamptz) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';

create or replace function pgmq.send_batch_topic(
    routing_key text, msgs jsonb[], headers jsonb[], delay int)
returns table (queue_name text, msg_id bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq.send_batch_topic(
        routing_key, msgs, headers, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch_topic(text, jsonb[], jsonb[], int) is
    'Sends messages to all queues whose patterns match; returns the ids for each queue.';
