-- Ending messages, and changing when they become visible.
create or replace function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select i from pgmq._end(queue_name, coalesce(msg_ids, '{}')) e
        cross join lateral unnest(e.ids) r
        cross join lateral generate_series(lower(r), upper(r) - 1) i
        order by i;
end
$$;
comment on function pgmq.delete(text, bigint[]) is
    'Ends messages, whoever has read them; returns the ids of those that were there.';

create or replace function pgmq.delete(queue_name text, msg_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from pgmq._end(queue_name, array[msg_id]));
end
$$;
comment on function pgmq.delete(text, bigint) is
    'Ends a message, whoever has read it; false if it is not there.';
