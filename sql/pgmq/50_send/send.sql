-- Sending. The overloads are those of pgmq; send and send_batch with a timestamptz do the work.
create or replace function pgmq.send(
    queue_name text, msg jsonb, headers jsonb, delay timestamptz
) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
begin
    return next pgq.publish(
        queue_name, coalesce(msg, 'null'), pgmq._headers_in(headers),
        delay => case when delay > v_now then delay - v_now end);
    perform pgmq._notify(queue_name);
end
$$;
comment on function pgmq.send(text, jsonb, jsonb, timestamptz) is
    'Sends a message that becomes visible at a time; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(queue_name, msg, null::jsonb, null::timestamptz);
end
$$;
comment on function pgmq.send(text, jsonb) is 'Sends a message; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(queue_name, msg, headers, null::timestamptz);
end
$$;
comment on function pgmq.send(text, jsonb, jsonb) is 'Sends a message; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, delay int) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(
        queue_name, msg, null::jsonb, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send(text, jsonb, int) is
    'Sends a message that becomes visible after so many seconds; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, delay timestamptz)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(queue_name, msg, null::jsonb, delay);
end
$$;
comment on function pgmq.send(text, jsonb, timestamptz) is
    'Sends a message that becomes visible at a time; returns its id.';

create or replace function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay int)
returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq.send(
        queue_name, msg, headers, pgq.now() + make_interval(secs => delay));
end
$$;
comment on function pgmq.send(text, jsonb, jsonb, int) is
    'Sends a message that becomes visible after so many seconds; returns its id.';
