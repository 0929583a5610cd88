-- The queue of that name, or QU001.
create or replace function pgq._queue(name text) returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    select q.* into v_queue from pgq.queue q where q.name = _queue.name;
    if not found then
        raise exception 'queue "%" does not exist', coalesce(_queue.name, '<null>')
            using errcode = 'QU001',
                  hint = 'Create it with pgq.create_queue(queue) or pgq.subscribe(queue, pattern).';
    end if;
    return v_queue;
end
$$;
comment on function pgq._queue(text) is 'The queue of that name, or QU001.';
