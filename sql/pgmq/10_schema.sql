-- The schema pgmq: the functions of pgmq 1.13, served by pgq.
--
-- msg_id is the id of the message, vt the end of the lease, read_ct the attempt. pgmq names a
-- message by its id alone, so pgmq._take finds it wherever it is: ready, scheduled or leased. All
-- other functions translate.
create schema pgmq;
comment on schema pgmq is 'The functions of pgmq, served by pgq';
revoke all on schema pgmq from public;

create type pgmq.message_record as (
    msg_id       bigint,
    read_ct      integer,
    enqueued_at  timestamptz,
    last_read_at timestamptz,
    vt           timestamptz,
    message      jsonb,
    headers      jsonb
);
comment on type pgmq.message_record is 'A message, as pgmq returns it.';

create type pgmq.queue_record as (
    queue_name     varchar,
    is_partitioned boolean,
    is_unlogged    boolean,
    created_at     timestamptz
);
comment on type pgmq.queue_record is 'A queue, as pgmq lists it.';

create type pgmq.metrics_result as (
    queue_name               text,
    queue_length             bigint,
    newest_msg_age_sec       int,
    oldest_msg_age_sec       int,
    total_messages           bigint,
    scrape_time              timestamptz,
    queue_visible_length     bigint,
    default_partition_length bigint
);
comment on type pgmq.metrics_result is 'How a queue is doing, as pgmq reports it.';

create table pgmq.asked_for (
    queue_name     text not null,
    is_partitioned boolean not null,
    is_unlogged    boolean not null,
    constraint asked_for_pkey primary key (queue_name),
    constraint asked_for_queue_exists foreign key (queue_name) references pgq.queue (name)
        on delete cascade
);
comment on table pgmq.asked_for is
    'The options that the creator of a queue asked for. pgq stores all queues in one partitioned '
    'and logged table, so the options are only kept for list_queues.';
revoke all on table pgmq.asked_for from public;

create table pgmq.archived (
    queue_name   text not null,
    msg_id       bigint not null,
    read_ct      int not null,
    enqueued_at  timestamptz not null,
    last_read_at timestamptz,
    archived_at  timestamptz not null,
    vt           timestamptz not null,
    message      jsonb,
    headers      jsonb,
    constraint archived_pkey primary key (queue_name, msg_id)
);
comment on table pgmq.archived is
    'Archived messages of all queues, for ever; pgmq.a_<queue> shows those of one queue.';
revoke all on table pgmq.archived from public;

create table pgmq.topic_bindings (
    pattern        text not null,
    queue_name     text not null,
    bound_at       timestamptz not null default now(),
    compiled_regex text generated always as (
        '^' || replace(replace(replace(pattern, '.', E'\\.'), '*', '[^.]+'), '#', '.*') || '$'
    ) stored,
    constraint topic_bindings_pkey primary key (queue_name, pattern),
    constraint topic_bindings_queue_exists foreign key (queue_name) references pgq.queue (name)
        on delete cascade
);
comment on table pgmq.topic_bindings is 'Which routing keys send_topic delivers to which queues.';
revoke all on table pgmq.topic_bindings from public;

create table pgmq.notify_insert_throttle (
    queue_name           text not null,
    throttle_interval_ms int not null default 0,
    last_notified_at     timestamptz not null default to_timestamp(0),
    constraint notify_insert_throttle_pkey primary key (queue_name),
    constraint notify_insert_throttle_not_negative check (throttle_interval_ms >= 0),
    constraint notify_insert_throttle_queue_exists foreign key (queue_name)
        references pgq.queue (name) on delete cascade
);
comment on table pgmq.notify_insert_throttle is 'Queues whose senders notify, and how often.';
revoke all on table pgmq.notify_insert_throttle from public;

select pg_catalog.pg_extension_config_dump('pgmq.asked_for', '');
select pg_catalog.pg_extension_config_dump('pgmq.archived', '');
select pg_catalog.pg_extension_config_dump('pgmq.topic_bindings', '');
select pg_catalog.pg_extension_config_dump('pgmq.notify_insert_throttle', '');
