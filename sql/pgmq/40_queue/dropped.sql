-- Removes what create added, once the queue is gone.
create or replace function pgmq._dropped(queue_name text) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgq.queue q where q.name = _dropped.queue_name) then
        return;
    end if;
    execute format('drop view if exists pgmq.%I, pgmq.%I',
                   pgmq.format_table_name(queue_name, 'q'),
                   pgmq.format_table_name(queue_name, 'a'));
    delete from pgmq.archived a where a.queue_name = _dropped.queue_name;
end
$$;
comment on function pgmq._dropped(text) is 'Removes what create added.';
