-- Unlogged, because a crash may lose staged messages: the call that publishes them gives their
-- number, and fails if some are missing.
create unlogged table pgq.staged (
    token          uuid not null,
    position       int not null,
    topic          text not null,
    priority       int not null default 0,
    headers        jsonb not null default '{}',
    payload        jsonb not null,
    sender         text,
    recipient      text,
    reply_to       text,
    correlation_id text,
    group_key      text,
    dedup_key      text,
    deliver_at     timestamptz,
    expires_at     timestamptz,
    staged_at      timestamptz not null default now()
);
create index staged_token_idx on pgq.staged (token, position);
comment on table pgq.staged is
    'Messages for a later publication, added by INSERT or COPY. pgq.publish_staged publishes '
    'those of the given tokens together. Other rows are deleted after a day.';
comment on column pgq.staged.token is
    'Names one attempt of one writer. Each attempt uses a new token, so a retry makes no '
    'duplicates.';
comment on column pgq.staged.position is 'The order within a token.';
revoke all on table pgq.staged from public;

create table pgq.writer (
    writer       text not null,
    epoch        bigint not null,
    size         bigint not null,
    published_at timestamptz not null,
    query        text,
    role         text not null default current_user,
    constraint writer_pkey primary key (writer)
) with (fillfactor = 50);
comment on table pgq.writer is
    'The last epoch that each named writer has published. Publishing it again does nothing.';
comment on column pgq.writer.size is 'How many messages that epoch had.';
comment on column pgq.writer.query is
    'The query whose checkpoint numbers the epochs. Another query is rejected.';
comment on column pgq.writer.role is
    'The role that publishes under the name. Only the owner may use the names of other roles.';
revoke all on table pgq.writer from public;
