create or replace function pgmq._archive(
    queue_name text, msg_ids bigint[], caller pgq.caller default current_user
) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
begin
    return query
        insert into pgmq.archived as a (queue_name, msg_id, read_ct, enqueued_at, last_read_at,
                                        archived_at, vt, message, headers)
        select v_queue.name, m.id, e.attempt, m.published_at, e.claimed_at, pgq.now(),
               coalesce(e.until, m.published_at), nullif(m.payload, 'null'),
               pgmq._headers_out(m.headers)
        from pgmq._end(queue_name, coalesce(msg_ids, '{}')) e
        cross join lateral pgq._read_ids(null, e.attempt, e.until, e.ids) m
        order by m.id
        returning a.msg_id;
end
$$;
comment on function pgmq._archive(text, bigint[], pgq.caller) is
    'Ends messages and keeps copies.';

create or replace function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select pgmq._archive(queue_name, msg_ids);
end
$$;
comment on function pgmq.archive(text, bigint[]) is
    'Ends messages and keeps copies in pgmq.a_<queue>; returns the ids of those that were there.';

create or replace function pgmq.archive(queue_name text, msg_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from pgmq._archive(queue_name, array[msg_id]));
end
$$;
comment on function pgmq.archive(text, bigint) is
    'Ends a message and keeps a copy in pgmq.a_<queue>; false if it is not there.';
