create or replace function pgmq.validate_routing_key(routing_key text) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq._check_words(routing_key, 'routing key', '^[a-zA-Z0-9._-]+$');
    return true;
end
$$;
comment on function pgmq.validate_routing_key(text) is
    'True, or 22023 if messages cannot have this key.';
