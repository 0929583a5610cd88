-- Adds to a queue of pgq what pgmq has: views instead of its tables, and options for list_queues.
create or replace function pgmq._created(
    queue_name text, is_partitioned boolean, is_unlogged boolean
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_view text;
begin
    insert into pgmq.asked_for (queue_name, is_partitioned, is_unlogged)
    values (_created.queue_name, _created.is_partitioned, _created.is_unlogged)
    on conflict on constraint asked_for_pkey do nothing;
    v_view := pgmq.format_table_name(_created.queue_name, 'q');
    if to_regclass(format('pgmq.%I', v_view)) is null then
        execute format('create view pgmq.%I as select * from pgmq._held(%L)',
                       v_view, _created.queue_name);
    end if;
    v_view := pgmq.format_table_name(_created.queue_name, 'a');
    if to_regclass(format('pgmq.%I', v_view)) is null then
        execute format(
            'create view pgmq.%I as select msg_id, read_ct, enqueued_at, last_read_at, '
            'archived_at, vt, message, headers from pgmq.archived where queue_name = %L',
            v_view, _created.queue_name);
    end if;
end
$$;
comment on function pgmq._created(text, boolean, boolean) is
    'Adds the views and options of pgmq to a queue of pgq.';
