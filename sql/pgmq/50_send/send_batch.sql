create or replace function pgmq.send_batch(
    queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz
) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_headers jsonb[] := headers;
begin
    perform pgmq._check_batch(msgs, headers);
    if headers is not null then
        v_headers := array(
            select pgmq._headers_in(h) from unnest(headers) with ordinality u (h, i) order by i);
    end if;
    return query select pgq.publish_batch(
        queue_name,
        case when array_position(msgs, null) is null then msgs
             else array(select coalesce(m, 'null')
                        from unnest(msgs) with ordinality u (m, i) order by i) end,
        v_headers, delay => case when delay > v_now then delay - v_now end);
    perform pgmq._notify(queue_name);
end
$$;
comment on function pgmq.send_batch(text, jsonb[], jsonb[], timestamptz) is
    'Sends messages that become visible at a time; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[]) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], null::timestamptz);
end
$$;
comment on function pgmq.send_batch(text, jsonb[]) is 'Sends messages; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[])
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(queue_name, msgs, headers, null::timestamptz);
end
$$;
comment on function pgmq.send_batch(text, jsonb[], jsonb[]) is
    'Sends messages; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay int)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(
        queue_name, msgs, null::jsonb[], pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch(text, jsonb[], int) is
    'Sends messages that become visible after so many seconds; returns their ids.';

create or replace function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(queue_name, msgs, null::jsonb[], delay);
end
$$;
comment on function pgmq.send_batch(text, jsonb[], timestamptz) is
    'Sends messages that become visible at a time; returns their ids.';

create or replace function pgmq.send_batch(
    queue_name text, msgs jsonb[], headers jsonb[], delay int
) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send_batch(
        queue_name, msgs, headers, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send_batch(text, jsonb[], jsonb[], int) is
    'Sends messages that become visible after so many seconds; returns their ids.';
