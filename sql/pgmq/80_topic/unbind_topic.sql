create or replace function pgmq.unbind_topic(pattern text, queue_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(pattern, '') = '' or coalesce(queue_name, '') = '' then
        raise exception 'a binding has a pattern and a queue'
            using errcode = 'invalid_parameter_value', hint = 'Name both.';
    end if;
    return pgmq._bind(pattern, queue_name, false);
exception when sqlstate 'QU001' then
    return false;
end
$$;
comment on function pgmq.unbind_topic(text, text) is
    'Ends a binding; false if there is none.';
