-- Whether a message passes a compiled filter. The planner inlines the expression; the document is
-- built, and the payload read, only for a filter that needs them. No path: everything passes.
create or replace function pgq._test_filter(
    path jsonpath, scope text, headers jsonb, payload jsonb, topic text, priority int, sender text,
    recipient text, reply_to text, correlation_id text, group_key text, attempt int,
    published_at timestamptz, expires_at timestamptz, id bigint, now timestamptz)
returns boolean
language sql stable parallel safe
return path is null or coalesce(pg_catalog.jsonb_path_match(
    case scope
        when 'headers' then coalesce(headers, '{}')
        when 'payload' then coalesce(payload, 'null')
        when 'content' then coalesce(payload, 'null')
        when 'message' then pgq._message_document(headers, payload, topic, priority, sender,
            recipient, reply_to, correlation_id, group_key, attempt, published_at, expires_at, id)
        end,
    path,
    case scope
        when 'headers' then '{}'
        when 'payload' then '{}'
        when 'content' then pg_catalog.jsonb_build_object('headers', headers)
        else pg_catalog.jsonb_build_object('now', extract(epoch from now)) end,
    true), case when pg_catalog.strpos(scope, E'\n') > 0 then pgq._test_suffixes(
        path, scope, headers, payload, topic, priority, sender, recipient, reply_to,
        correlation_id, group_key, attempt, published_at, expires_at, id, now) end);
comment on function pgq._test_filter(jsonpath, text, jsonb, jsonb, text, int, text, text, text,
    text, text, int, timestamptz, timestamptz, bigint, timestamptz) is
    'Whether a message passes a compiled filter.';
