-- Ranks have room for ids of 49 bits.
create sequence pgq.message_id maxvalue 562949953421311;
comment on sequence pgq.message_id is 'Message ids: one sequence for all topics.';
revoke all on sequence pgq.message_id from public;

create table pgq.message (
    id             bigint not null default nextval('pgq.message_id'),
    era            smallint not null default (pg_sequence_last_value('pgq.era_number') % 3),
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
    published_at   timestamptz not null default now(),
    -- Tells the trigger which role inserts: no role but the owner may write this column.
    publisher      text default current_user
) partition by list (era);

-- Each partition has its own primary key, which dump and restore need. A primary key of the whole
-- table is impossible: it would have to contain the era.
create table pgq.message_0 partition of pgq.message (primary key (id)) for values in (0);
create table pgq.message_1 partition of pgq.message (primary key (id)) for values in (1);
create table pgq.message_2 partition of pgq.message (primary key (id)) for values in (2);

create index message_0_correlation_idx on pgq.message_0 (correlation_id)
    where correlation_id is not null;
create index message_1_correlation_idx on pgq.message_1 (correlation_id)
    where correlation_id is not null;
create index message_2_correlation_idx on pgq.message_2 (correlation_id)
    where correlation_id is not null;

comment on table pgq.message is
    'The log. Any INSERT or COPY here is a publish: a trigger routes the new messages.';
comment on column pgq.message.id is 'Assigned in publishing order, never reused.';
comment on column pgq.message.era is 'The slot of the ring that stores the message.';
comment on column pgq.message.topic is
    'The topic that the message was published to: words separated by dots.';
comment on column pgq.message.priority is 'Higher is delivered first; 0 by default.';
comment on column pgq.message.headers is 'An object of scalars, for filters and lanes.';
comment on column pgq.message.payload is 'The content of the message.';
comment on column pgq.message.sender is 'The sender, as the publisher gives it.';
comment on column pgq.message.recipient is 'The addressee; null: broadcast.';
comment on column pgq.message.reply_to is 'The topic on which the sender expects a reply.';
comment on column pgq.message.correlation_id is 'Links a reply to its request.';
comment on column pgq.message.group_key is 'Messages of one group are delivered in order.';
comment on column pgq.message.dedup_key is
    'A queue with dedup = keep does not get a second message of the topic with this key within '
    'its window.';
comment on column pgq.message.deliver_at is
    'The earliest delivery time. infinity: the message is stored and never delivered.';
comment on column pgq.message.expires_at is 'The message is not delivered after this time.';
comment on column pgq.message.published_at is 'When the publishing transaction began.';
comment on column pgq.message.publisher is
    'The role that published the message, which the publisher cannot choose; null: the owner, by '
    'a function.';
revoke all on table pgq.message, pgq.message_0, pgq.message_1, pgq.message_2 from public;
