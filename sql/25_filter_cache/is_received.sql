-- Whether one of these queues receives such a message, by its current bindings.
create or replace function pgq._is_received(queues int[], message pgq.message) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select from pgq.binding b
        where b.queue_id = any (queues)
          and (b.regex is null and b.pattern = message.topic or message.topic ~ b.regex)
          and pgq._matches(b.path, b.scope, message, 1, pgq.now()));
end
$$;
comment on function pgq._is_received(int[], pgq.message) is
    'Whether one of these queues receives a message with these properties.';
