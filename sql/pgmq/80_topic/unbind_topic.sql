create or replace function pgmq.unbind_topic(pattern text, queue_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(pattern, '') = '' then
        perform pgmq.validate_topic_pattern(pattern);
    end if;
    return pgmq._bind(pattern, queue_name, false);
end
$$;
comment on function pgmq.unbind_topic(text, text) is
    'Ends a binding; false if there is none.';
