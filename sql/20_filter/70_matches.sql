-- Whether a message matches a filter. For tests, triggers and people: it compiles on every call.
create or replace function pgq.matches(
    filter jsonb, headers jsonb, payload jsonb default null, topic text default null,
    priority int default 0, sender text default null, recipient text default null,
    reply_to text default null, correlation_id text default null, group_key text default null,
    attempt int default 1, published_at timestamptz default null,
    expires_at timestamptz default null, id bigint default null)
returns boolean
language plpgsql stable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tree constant jsonb := pgq._filter_parse(filter);
begin
    return pgq._test_filter(pgq._filter_path(v_tree), pgq._filter_reads(v_tree), headers, payload,
        topic, priority, sender, recipient, reply_to, correlation_id, group_key, attempt,
        coalesce(published_at, now()), expires_at, id, now());
end
$$;
comment on function pgq.matches(jsonb, jsonb, jsonb, text, int, text, text, text, text, text, int,
    timestamptz, timestamptz, bigint) is
    'Whether a message with these headers, payload and fields matches the filter. A missing '
    'published_at means now. QU004 if the filter is invalid.';
