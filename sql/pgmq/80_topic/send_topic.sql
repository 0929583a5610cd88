create or replace function pgmq.send_topic(
    routing_key text, msg jsonb, headers jsonb, delay int
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if msg is null or delay < 0 then
        raise exception 'a message of a topic needs a body, and no negative delay'
            using errcode = 'invalid_parameter_value', hint = 'Send {} for an empty one.';
    end if;
    return (
        select count(*)::int from pgmq.send_batch_topic(
            routing_key, array[msg], case when headers is not null then array[headers] end,
            pgq.now() + make_interval(secs => coalesce(delay, 0))));
end
$$;
comment on function pgmq.send_topic(text, jsonb, jsonb, int) is
    'Sends a message to all queues whose patterns match; returns how many.';

create or replace function pgmq.send_topic(routing_key text, msg jsonb) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.send_topic(routing_key, msg, null::jsonb, 0);
end
$$;
comment on function pgmq.send_topic(text, jsonb) is
    'Sends a message to all queues whose patterns match; returns how many.';

create or replace function pgmq.send_topic(routing_key text, msg jsonb, delay int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.send_topic(routing_key, msg, null::jsonb, delay);
end
$$;
comment on function pgmq.send_topic(text, jsonb, int) is
    'Sends a message to all queues whose patterns match; returns how many.';

create or replace function pgmq.send_topic(routing_key text, msg jsonb, headers jsonb) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgmq.send_topic(routing_key, msg, headers, 0);
end
$$;
comment on function pgmq.send_topic(text, jsonb, jsonb) is
    'Sends a message to all queues whose patterns match; returns how many.';
