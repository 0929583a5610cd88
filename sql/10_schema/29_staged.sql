-- Unlogged, because a crash may cost what is staged: whoever publishes it says how much there has
-- to be, and is refused when some is missing.
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
    'Messages on their way into the log, put here by INSERT or COPY: pgq.publish_staged publishes '
    'those of the tokens that it is given, all at once; the rest is swept after a day.';
comment on column pgq.staged.token is
    'Who staged it: a new one for each attempt of each writer, so that a retry doubles nothing.';
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
    'The last epoch that each named writer has published: the same one again does nothing.';
comment on column pgq.writer.size is 'How many messages that epoch had.';
comment on column pgq.writer.query is
    'The query whose checkpoint counts the epochs: another one is refused.';
comment on column pgq.writer.role is
    'The role that has published it: no other one may use the name, but the owner.';
revoke all on table pgq.writer from public;
