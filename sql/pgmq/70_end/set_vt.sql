-- Makes messages visible at another time, whatever their state: they leave their lease and become
-- scheduled, or ready, with their attempts and failures.
create or replace function pgmq._set_vt(
    queue_name text, msg_ids bigint[], vt timestamptz, caller pgq.caller default current_user
) returns setof pgmq.message_record
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_now timestamptz := pgq.now();
    v_part pgq.lease;
begin
    for v_part in select * from pgmq._take(queue_name, coalesce(msg_ids, '{}')) loop
        if v_part.runs then
            v_part := pgq._return_runs(v_part, v_part.failures, vt - v_now, v_now);
            continue when v_part.size = 0;
        end if;
        if vt > v_now then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_queue.queue_id, vt, v_part.attempt, v_part.size, v_part.grouped,
                    v_part.failures, v_part.ids);
            perform pgq._wake(v_queue.queue_id);
        else
            perform pgq._enqueue(v_queue, v_part.ids, v_part.attempt, v_part.failures,
                                 v_part.grouped);
        end if;
        return query
            select m.id, v_part.attempt, m.published_at, v_part.claimed_at, vt,
                   nullif(m.payload, 'null'), pgmq._headers_out(m.headers)
            from pgq._read_ids(null, v_part.attempt, vt, v_part.ids) m
            order by m.id;
    end loop;
end
$$;
comment on function pgmq._set_vt(text, bigint[], timestamptz, pgq.caller) is
    'Makes messages visible at another time.';

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._set_vt(queue_name, msg_ids, vt);
end
$$;
comment on function pgmq.set_vt(text, bigint[], timestamptz) is
    'Makes messages visible at a time; returns those that were there.';

create or replace function pgmq.set_vt(queue_name text, msg_ids bigint[], vt int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select * from pgmq._set_vt(queue_name, msg_ids, pgq.now() + make_interval(secs => vt));
end
$$;
comment on function pgmq.set_vt(text, bigint[], int) is
    'Makes messages visible after so many seconds; returns those that were there.';

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt timestamptz)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._set_vt(queue_name, array[msg_id], vt);
end
$$;
comment on function pgmq.set_vt(text, bigint, timestamptz) is
    'Makes a message visible at a time; returns it.';

create or replace function pgmq.set_vt(queue_name text, msg_id bigint, vt int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._set_vt(
        queue_name, array[msg_id], pgq.now() + make_interval(secs => vt));
end
$$;
comment on function pgmq.set_vt(text, bigint, int) is
    'Makes a message visible after so many seconds; returns it.';
