-- The queue of that name, or QU001. suggest: the caller is the owner, who may see similar names.
-- (A caller of type name would be a second collation, and the queue would not be found by index.)
create or replace function pgq._queue(name text, suggest boolean default false) returns pgq.queue
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
                  hint = pgq._did_you_mean(case when suggest then current_user end, _queue.name)
                      || 'Create it with pgq.create_queue(queue) or '
                         'pgq.subscribe(queue, pattern).';
    end if;
    return v_queue;
end
$$;
comment on function pgq._queue(text, boolean) is 'The queue of that name, or QU001.';
