-- The document that a filter of scope message reads; timestamps are epoch seconds in it.
create or replace function pgq._message_document(
    headers jsonb, payload jsonb, topic text, priority int, sender text, recipient text,
    reply_to text, correlation_id text, group_key text, attempt int,
    published_at timestamptz, expires_at timestamptz, id bigint)
returns jsonb
language sql stable parallel safe
return pg_catalog.jsonb_build_object(
    'headers', headers,
    'payload', payload,
    'msg', pg_catalog.jsonb_build_object(
        'topic', topic, 'priority', priority, 'sender', sender, 'recipient', recipient,
        'reply_to', reply_to, 'correlation_id', correlation_id, 'group_key', group_key,
        'attempt', attempt,
        'published_at', extract(epoch from published_at),
        'expires_at', extract(epoch from expires_at),
        'id', id));
comment on function pgq._message_document(jsonb, jsonb, text, int, text, text, text, text, text,
    int, timestamptz, timestamptz, bigint) is
    'A message as one JSON document: headers, payload and msg.';
