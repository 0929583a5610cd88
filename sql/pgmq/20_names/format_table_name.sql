create or replace function pgmq.format_table_name(queue_name text, prefix text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue_name ~ E'\\$|;|--|''' then
        raise exception 'invalid queue name "%"', queue_name
            using errcode = 'invalid_parameter_value', hint = 'Use letters, digits, _ and -.';
    end if;
    return lower(prefix || '_' || queue_name);
end
$$;
comment on function pgmq.format_table_name(text, text) is
    'The name of the view that shows a queue (q) or its archive (a).';
