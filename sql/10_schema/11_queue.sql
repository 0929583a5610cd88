create table pgq.queue (
    queue_id     int generated always as identity,
    name         text not null,
    lane_keys    text[],
    lanes_full   boolean not null default false,
    unlaned_rows boolean not null default false,
    unlaned_xid  xid8,
    unlaned_rank bigint,
    auto_lanes   boolean not null default false,
    -- The defaults are those of create_queue, for queues that subscribe makes.
    lease        interval not null default '30 s',
    max_attempts int not null default 3,
    backoff      interval not null default '1 s',
    max_backoff  interval not null default '5 min',
    retention    interval not null default '1 day',
    dedup_window interval not null default '5 min',
    on_expiry    text not null default 'dead_letter',
    on_dead      text not null default 'release',
    suggestions  boolean not null default false,
    set_size     int not null default 100,
    journal      text not null default 'all',
    mode         text not null default 'queue',
    max_lease    interval not null default '3600 days',
    dedup        text not null default 'keep',
    paused       boolean not null default false,
    limited      boolean not null default false,
    channel      text not null default 'pgq_' || replace(gen_random_uuid()::text, '-', ''),
    secret       text not null default gen_random_uuid()::text,
    created_at   timestamptz not null default now(),
    constraint queue_pkey primary key (queue_id),
    constraint queue_name_unique unique (name),
    constraint queue_mode_known check (mode in ('queue', 'archive')),
    constraint queue_on_expiry_known check (on_expiry in ('dead_letter', 'discard')),
    constraint queue_on_dead_known check (on_dead in ('release', 'block')),
    constraint queue_dedup_known check (dedup in ('keep', 'replace', 'postpone')),
    constraint queue_journal_known check (journal in ('all', 'failures')),
    constraint queue_set_size_in_range check (set_size between 1 and 1024)
);
comment on table pgq.queue is 'Queues and their policies. Written only by create, alter and drop.';
comment on column pgq.queue.lane_keys is
    'Fields whose values sort messages into lanes, named as in filters. One of them may have any '
    'number of values: # before its name marks it as hashed.';
comment on column pgq.queue.lanes_full is
    'The lane dictionary has reached its limit. Messages with new values go to the overflow lane.';
comment on column pgq.queue.unlaned_rows is
    'Ready rows without a lane may remain from the time before the queue had lane keys.';
comment on column pgq.queue.unlaned_xid is
    'Publishing transactions before this one may not see yet that the queue has lanes.';
comment on column pgq.queue.unlaned_rank is
    'Ready rows without a lane before this rank have been sorted into lanes.';
comment on column pgq.queue.auto_lanes is
    'maintain() chooses the lane keys from the fields that filters test.';
comment on column pgq.queue.lease is
    'The lease duration of a claim that gives none.';
comment on column pgq.queue.max_lease is
    'The longest time for which a consumer may hold messages, including all extensions.';
comment on column pgq.queue.max_attempts is 'Deliveries before a message becomes a dead letter.';
comment on column pgq.queue.backoff is 'Delay before the first retry; doubles with every attempt.';
comment on column pgq.queue.max_backoff is 'The longest delay before a retry.';
comment on column pgq.queue.retention is 'The log keeps messages for at least this long.';
comment on column pgq.queue.dedup_window is
    'How long the queue remembers a dedup key.';
comment on column pgq.queue.dedup is
    'The effect of a second message with the same dedup key. keep: none, the first message stays. '
    'replace: it replaces the first message while that waits. postpone: the first message, while '
    'it waits, gets the delivery time of the second.';
comment on column pgq.queue.on_expiry is 'What happens to messages that expire before delivery.';
comment on column pgq.queue.on_dead is
    'Whether a dead letter releases its ordering group, or blocks it until the dead letter is '
    'replayed or discarded.';
comment on column pgq.queue.suggestions is
    'The queue also receives messages whose header "route" names it.';
comment on column pgq.queue.set_size is
    'The largest number of ids in one ready row. Concurrent claims skip each other row by row.';
comment on column pgq.queue.journal is
    'all: the audit log records every event. failures: all events except acks without a result.';
comment on column pgq.queue.mode is
    'queue: claims deliver the messages. archive: the messages stay in the log only.';
comment on column pgq.queue.paused is 'Claims return nothing while true.';
comment on column pgq.queue.limited is
    'The queue has limits, or claims take turns over its lanes: see pgq.queue_limit.';
comment on column pgq.queue.channel is
    'The channel on which consumers are notified. Its name is random, because every role can '
    'LISTEN.';
comment on column pgq.queue.secret is
    'Signs the low watermark that a session keeps in a setting. No role but the owner can read it.';
revoke all on table pgq.queue from public;
