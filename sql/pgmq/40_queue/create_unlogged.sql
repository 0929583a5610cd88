create or replace function pgmq.create_unlogged(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, false, true);
end
$$;
comment on function pgmq.create_unlogged(text) is
    'Creates a queue. pgq logs all queues: a crash loses nothing of this one either.';
