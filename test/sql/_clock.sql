-- Helpers of all test files: a clock that the test sets, and short functions.
create schema t;

-- A file is one transaction, so leases and delays need a clock that the test can move.
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return coalesce(
    nullif(current_setting('pgq_test.now', true), '')::timestamptz, clock_timestamp());

-- Sets the clock.
create function t.at(moment timestamptz) returns void language plpgsql as $$
begin
    perform set_config('pgq_test.now', moment::text, false);
end
$$;

-- Moves the clock forward.
create function t.advance(span interval) returns void language plpgsql as $$
begin
    perform t.at(pgq.now() + span);
end
$$;

-- Claims; returns the payloads in delivery order.
create function t.take(
    topic text, filter jsonb default null, n int default 1, lease interval default null,
    key text default null
) returns text language plpgsql as $$
begin
    return (
        select string_agg(c.payload #>> '{}', ' ' order by c.i)
        from pgq.claim(take.topic, take.filter, take.n, take.lease, take.key)
            with ordinality c (lease_id, id, topic, priority, attempt, headers, payload, sender,
                recipient, reply_to, correlation_id, group_key, published_at, expires_at,
                lease_until, i));
end
$$;

-- The payloads that peek returns.
create function t.peek(topic text, filter jsonb default null, n int default 10) returns text
language plpgsql as $$
begin
    return (
        select string_agg(p.payload #>> '{}', ' ' order by p.i)
        from (select q.payload, row_number() over () as i
              from pgq.peek(peek.topic, peek.filter, peek.n) q) p);
end
$$;

-- The payloads that a queue holds in a state, by id: ready, delayed, retrying, leased, dead.
create function t.held(queue text, state text) returns text language plpgsql as $$
begin
    return (
        select string_agg(coalesce(m.payload, d.payload) #>> '{}', ' ' order by s.id)
        from pgq.message_state s
        left join pgq.message m on m.id = s.id
        left join pgq.dead_letter d on d.message_id = s.id and s.state = 'dead'
            and d.queue_id = (select q.queue_id from pgq.queue q where q.name = held.queue)
        where s.queue = held.queue and s.state = held.state);
end
$$;

-- The HINT of the error of a statement.
create function t.hint_of(statement text) returns text language plpgsql as $$
declare
    v_hint text;
begin
    execute statement;
    return 'no error';
exception when others then
    get stacked diagnostics v_hint = pg_exception_hint;
    return v_hint;
end
$$;

-- The outcome of a statement for a role: 'ok' or the SQLSTATE. The statement is rolled back. The
-- role is set by SET ROLE or by SET SESSION AUTHORIZATION.
create function t.outcome(role text, statement text, setting text default 'role') returns text
language plpgsql as $$
begin
    perform set_config(setting, role, true);
    begin
        execute statement;
        raise exception using errcode = 'QT000';
    exception
        when sqlstate 'QT000' then
            statement := 'ok';
        when others then
            statement := sqlstate;
    end;
    execute case setting when 'role' then 'reset role' else 'reset session authorization' end;
    return statement;
end
$$;

-- The value that a statement returns to a role, or the whole text of the error. It is not rolled
-- back.
create function t.answer(role text, statement text) returns text language plpgsql as $$
declare
    v_message text;
    v_detail text;
    v_hint text;
begin
    perform set_config('role', role, true);
    begin
        execute statement into statement;
    exception when others then
        get stacked diagnostics v_message = message_text, v_detail = pg_exception_detail,
            v_hint = pg_exception_hint;
        statement := concat_ws(' | ', sqlstate, v_message, v_detail, v_hint);
    end;
    perform set_config('role', 'none', true);
    return statement;
end
$$;

-- Changes the log or truncates a table while the triggers that prevent it are disabled.
create function t.damage(statement text) returns void language plpgsql as $$
declare
    v_table regclass;
begin
    foreach v_table in array
        '{pgq.message,pgq.message_0,pgq.message_1,pgq.message_2,pgq.ready}'::regclass[]
    loop
        execute format('alter table %s disable trigger keep_log', v_table);
    end loop;
    execute statement;
    foreach v_table in array
        '{pgq.message,pgq.message_0,pgq.message_1,pgq.message_2,pgq.ready}'::regclass[]
    loop
        execute format('alter table %s enable always trigger keep_log', v_table);
    end loop;
end
$$;

-- How many rows of pgq's tables the transaction has read so far, in any way or by sequential scans.
create function t.rows_read(tables text default '%', sequential boolean default false)
returns bigint language sql volatile as $$
    select coalesce(sum(coalesce(seq_tup_read, 0)
        + case when sequential then 0 else coalesce(idx_tup_fetch, 0) end), 0)::bigint
    from pg_stat_xact_user_tables where schemaname = 'pgq' and relname like tables $$;

-- How many rows a statement reads.
create function t.cost(statement text, tables text default '%', sequential boolean default false)
returns bigint language plpgsql as $$
declare
    v_before bigint := t.rows_read(tables, sequential);
begin
    execute statement;
    return t.rows_read(tables, sequential) - v_before;
end
$$;
