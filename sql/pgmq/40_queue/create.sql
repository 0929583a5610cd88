-- An existing queue is not changed. pgmq neither limits attempts nor records acknowledgements, so a
-- new queue has 1,000 attempts, the most that pgq allows, and records failures only.
create or replace function pgmq._create(
    queue_name text, is_partitioned boolean, is_unlogged boolean
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.validate_queue_name(queue_name);
    perform pgmq.format_table_name(queue_name, 'q');
    perform pgmq.acquire_queue_lock(queue_name);
    begin
        perform pgq.create_queue(queue_name, max_attempts => 1000, journal => 'failures');
    exception when sqlstate 'QU002' then
        null;
    end;
    perform pgmq._created(queue_name, is_partitioned, is_unlogged);
end
$$;
comment on function pgmq._create(text, boolean, boolean) is 'Creates a queue, if there is none.';

create or replace function pgmq."create"(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._create(queue_name, false, false);
end
$$;
comment on function pgmq."create"(text) is 'Creates a queue, if there is none.';
