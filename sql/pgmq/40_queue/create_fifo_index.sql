create or replace function pgmq.create_fifo_index(queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgmq.list_queues() q where q.queue_name = create_fifo_index.queue_name;
    if not found then
        raise exception 'queue "%" does not exist', queue_name
            using errcode = 'QU001', hint = 'Create it with pgmq.create(name).';
    end if;
end
$$;
comment on function pgmq.create_fifo_index(text) is 'Changes nothing: no index is needed.';
