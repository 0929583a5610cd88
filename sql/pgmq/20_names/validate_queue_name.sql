-- Checks the name of a queue, which is also a part of the names of its views.
create or replace function pgmq.validate_queue_name(queue_name text) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(queue_name) > 47 then
        raise exception 'queue name "%..." is longer than 47 characters', left(queue_name, 40)
            using errcode = 'invalid_parameter_value',
                  hint = 'Shorten it, or create the queue with pgq.create_queue.';
    end if;
end
$$;
comment on function pgmq.validate_queue_name(text) is 'Raises 22023 if the name is too long.';
