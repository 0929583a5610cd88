create or replace function pgmq.bind_topic(pattern text, queue_name text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.validate_topic_pattern(pattern);
    perform pgmq._bind(pattern, queue_name, true);
end
$$;
comment on function pgmq.bind_topic(text, text) is
    'Lets a queue receive the messages of send_topic whose routing keys match the pattern.';
