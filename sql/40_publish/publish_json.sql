-- Publishes a payload of type json, such as row_to_json returns.
--
-- The topic is varchar on purpose. A literal or a parameter without a type fits both overloads, and
-- PostgreSQL then keeps those whose argument has the preferred type of its category: text. So only
-- an argument of type json (or a topic of type varchar) selects this one; with text in both, calls
-- with literals would be ambiguous. The body is bound and has no settings, so it is inlined.
create or replace function pgq.publish(
    topic varchar,
    payload json,
    headers jsonb default '{}',
    priority int default 0,
    delay interval default null,
    expires_in interval default null,
    sender text default null,
    recipient text default null,
    reply_to text default null,
    correlation_id text default null,
    group_key text default null,
    dedup_key text default null,
    deliver_at timestamptz default null
) returns bigint
language sql volatile
begin atomic
    select pgq.publish(
        topic::text, payload::jsonb, headers, priority, delay, expires_in, sender, recipient,
        reply_to, correlation_id, group_key, dedup_key, deliver_at);
end;
comment on function pgq.publish(
    varchar, json, jsonb, int, interval, interval, text, text, text, text, text, text,
    timestamptz) is
    'pgq.publish for a payload of type json. A literal is jsonb; cast text with ::jsonb.';

create or replace function pgq.publish_batch(
    topic varchar,
    payloads json[],
    headers jsonb[] default null,
    priority int default 0,
    delay interval default null,
    expires_in interval default null,
    sender text default null,
    recipient text default null,
    reply_to text default null,
    correlation_id text default null,
    group_key text default null,
    dedup_keys text[] default null,
    deliver_at timestamptz default null
) returns setof bigint
language sql volatile
begin atomic
    select pgq.publish_batch(
        topic::text, payloads::jsonb[], headers, priority, delay, expires_in, sender, recipient,
        reply_to, correlation_id, group_key, dedup_keys, deliver_at);
end;
comment on function pgq.publish_batch(
    varchar, json[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    timestamptz) is
    'pgq.publish_batch for payloads of type json[]. A literal is jsonb[]; cast text[] with '
    '::jsonb[].';
