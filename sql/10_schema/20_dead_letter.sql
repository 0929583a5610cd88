create table pgq.letter (
    dead_letter_id bigint generated always as identity,
    queue_id       int not null,
    message_id     bigint not null,
    reason         text not null,
    error          text,
    details        jsonb,
    attempts       int not null,
    failures       jsonb not null,
    holder         text,
    client         inet,
    failed_at      timestamptz not null,
    replay_count   int not null default 0,
    replayed_at    timestamptz,
    topic          text not null,
    priority       int not null,
    headers        jsonb not null,
    payload        jsonb not null,
    sender         text,
    recipient      text,
    reply_to       text,
    correlation_id text,
    group_key      text,
    dedup_key      text,
    deliver_at     timestamptz,
    expires_at     timestamptz,
    published_at   timestamptz not null,
    constraint letter_pkey primary key (dead_letter_id),
    constraint letter_message_unique unique (queue_id, message_id),
    constraint letter_reason_known check (
        reason in ('processing_error', 'timeout', 'max_attempts', 'expired', 'rejected'))
);
create index letter_failed_idx on pgq.letter (queue_id, failed_at, dead_letter_id);
comment on table pgq.letter is
    'Full copies of failed messages, with the reason. They remain when the log is truncated. Read '
    'them in the view pgq.dead_letter.';
comment on column pgq.letter.reason is
    'processing_error: the last attempt ended with a nack and an error. max_attempts: it ended '
    'with a nack without an error. timeout: its lease expired. rejected: a consumer buried the '
    'message. expired: the message was not delivered in time.';
comment on column pgq.letter.error is 'The error text of the last holder.';
comment on column pgq.letter.details is 'The details that the last holder gave, for programs.';
comment on column pgq.letter.failures is
    'The failed attempts and the replays, oldest first: time, holder, outcome.';
comment on column pgq.letter.holder is 'application_name of the last holder.';
comment on column pgq.letter.client is 'Address of the last holder; null for a local socket.';
comment on column pgq.letter.replay_count is 'How often it was replayed and failed again.';
comment on column pgq.letter.replayed_at is 'When it was last replayed.';
revoke all on table pgq.letter from public;
