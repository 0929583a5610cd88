-- For every test file: a clock that stands still until it is told to go on, and a few short words.
create schema t;

-- A file is one transaction, in which leases have to expire and delays to pass.
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return coalesce(
    nullif(current_setting('pgq_test.now', true), '')::timestamptz, clock_timestamp());

-- It is that moment, and stays so.
create function t.at(moment timestamptz) returns void language plpgsql as $$
begin
    perform set_config('pgq_test.now', moment::text, false);
end
$$;

-- It is that much later.
create function t.advance(span interval) returns void language plpgsql as $$
begin
    perform t.at(pgq.now() + span);
end
$$;

-- Claims, and tells the payloads in the order in which they came.
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

-- The payloads that peek shows.
create function t.look(topic text, filter jsonb default null, n int default 10) returns text
language plpgsql as $$
begin
    return (
        select string_agg(p.payload #>> '{}', ' ' order by p.i)
        from (select q.payload, row_number() over () as i
              from pgq.peek(look.topic, look.filter, look.n) q) p);
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

-- What the error of a statement advises.
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

-- What a role gets for a statement: 'ok' or the SQLSTATE. Nothing remains of what it did. The role
-- is that of SET ROLE, or the one that has logged in (session_authorization).
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

-- The one value that a role gets for a statement, or the whole text of the error; it remains done.
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

-- Changes the log or empties a table by hand, which is refused otherwise.
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
