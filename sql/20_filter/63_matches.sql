-- Whether a row of the log passes a compiled filter, for static statements: the planner inlines it.
create or replace function pgq._matches(
    path jsonpath, scope text, m pgq.message, attempt int, now timestamptz)
returns boolean
language sql stable parallel safe
return pgq._test_filter(
    path, scope, m.headers, m.payload, m.topic, m.priority, m.sender, m.recipient, m.reply_to,
    m.correlation_id, m.group_key, attempt, m.published_at, m.expires_at, m.id, now);
comment on function pgq._matches(jsonpath, text, pgq.message, int, timestamptz) is
    'Whether a message of the log passes a compiled filter.';
