create or replace function pgmq.purge_queue(queue_name text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(sum(e.size), 0) from pgmq._end(queue_name, null) e);
end
$$;
comment on function pgmq.purge_queue(text) is 'Ends all messages of a queue; returns how many.';
