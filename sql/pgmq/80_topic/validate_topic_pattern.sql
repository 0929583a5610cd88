create or replace function pgmq.validate_topic_pattern(pattern text) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._check_words(pattern, 'pattern', '^[a-zA-Z0-9._*#-]+$');
    return true;
end
$$;
comment on function pgmq.validate_topic_pattern(text) is
    'True, or 22023 if queues cannot be bound to this pattern.';
