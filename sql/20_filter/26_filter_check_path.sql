-- Refuses a path that is too long, or a field that msg does not have.
create or replace function pgq._filter_check_path(scope text, path text[], at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(path) > 16 then
        perform pgq._filter_error('the path is too long', at, 'A path has at most 16 keys.');
    elsif scope = 'headers' and cardinality(path) > 1 then
        perform pgq._filter_error('headers have no parts', at,
            'A header is a string, a number, true, false or null. Write '
            '{"payload": {"key": ...}} for a field of the payload, '
            '{"key": [{"prefix": "a"}]} for an operator of SNS.');
    elsif scope = 'msg' and (cardinality(path) <> 1 or path[1] not in ('topic', 'priority',
            'sender', 'recipient', 'reply_to', 'correlation_id', 'group_key', 'attempt',
            'published_at', 'expires_at', 'id')) then
        perform pgq._filter_error('the message has no such field', at,
            'The fields of msg are topic, priority, sender, recipient, reply_to, correlation_id, '
            'group_key, attempt, published_at, expires_at and id.');
    end if;
end
$$;
comment on function pgq._filter_check_path(text, text[], text) is
    'Validates the length of a path and the names of msg; QU004 if it cannot be used.';
