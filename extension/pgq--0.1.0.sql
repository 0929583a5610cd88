-- pgq 0.1.0: built from sql/ by sql/build.py; edit the sources.

-- Opens every built extension script: no accidents with psql, no foreign objects by name.
\echo Use "CREATE EXTENSION pgq" or "ALTER EXTENSION pgq UPDATE" to load this file. \quit

set local search_path = pg_catalog, pg_temp;
set local check_function_bodies = on;

-- sql/10_schema/10_schema.sql

-- One page for a newcomer.
--
-- A message is an immutable row of pgq.message. A queue receives every message that one of its
-- bindings (topic pattern, filter) accepts. What a queue still has to deliver is not a status
-- column on a million rows: it is a handful of rows that each hold a SET OF MESSAGE IDS.
-- Publishing adds a set to pgq.ready, claiming moves ids from ready to pgq.lease, acknowledging
-- subtracts them from the lease, failing moves them to pgq.scheduled or to pgq.dead_letter.
--
-- Laws that the code below relies on:
--   * An id of a queue is in at most one of ready, scheduled, lease, dead_letter.
--   * Every id inside a set is a message that exists in the log.
--   * A ready row is never updated: it is deleted, and what is left of it is inserted anew. After
--     FOR UPDATE SKIP LOCKED an updated row could be newer than the statement's snapshot, and a
--     DELETE by ctid would silently miss it; a deleted row simply vanishes.
--   * Lock order: ready or scheduled rows, then lease rows, then everything else; rows of another
--     transaction are skipped, never waited for, except by ack, nack, bury and extend, which name
--     the one lease they want.
create schema pgq;
comment on schema pgq is 'pgq: a message queue made of id sets';
revoke all on schema pgq from public;

-- sql/10_schema/11_queue.sql

create table pgq.queue (
    queue_id     int generated always as identity,
    name         text not null,
    lane_keys    text[],
    lanes_full   boolean not null default false,
    unlaned_rows boolean not null default false,
    unlaned_xid  xid8,
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
    paused       boolean not null default false,
    signal       uuid not null default gen_random_uuid(),
    created_at   timestamptz not null default now(),
    constraint queue_pkey primary key (queue_id),
    constraint queue_name_unique unique (name),
    constraint queue_mode_known check (mode in ('queue', 'archive')),
    constraint queue_on_expiry_known check (on_expiry in ('dead_letter', 'discard')),
    constraint queue_on_dead_known check (on_dead in ('release', 'block')),
    constraint queue_journal_known check (journal in ('all', 'failures')),
    constraint queue_set_size_in_range check (set_size between 1 and 1024)
);
comment on table pgq.queue is 'Queues and their policies. Written only by create, alter and drop.';
comment on column pgq.queue.lane_keys is 'Header keys whose values sort messages into lanes.';
comment on column pgq.queue.lanes_full is
    'The lane dictionary has reached its limit: messages with new values share the mixed lane.';
comment on column pgq.queue.unlaned_rows is
    'Ready rows without a lane may remain from before the queue had lane keys.';
comment on column pgq.queue.unlaned_xid is
    'Publishers before this transaction may not know yet that the queue has lanes.';
comment on column pgq.queue.lease is
    'How long a claim holds its messages unless it says otherwise.';
comment on column pgq.queue.max_attempts is 'Deliveries before a message becomes a dead letter.';
comment on column pgq.queue.backoff is 'Delay before the first retry; doubles with every attempt.';
comment on column pgq.queue.max_backoff is 'The longest delay before a retry.';
comment on column pgq.queue.retention is 'How long the log keeps messages at least.';
comment on column pgq.queue.dedup_window is 'How long a dedup key keeps a second publish away.';
comment on column pgq.queue.on_expiry is 'Where messages go that expire undelivered.';
comment on column pgq.queue.on_dead is
    'A dead letter releases its ordering group, or blocks it until it is replayed or discarded.';
comment on column pgq.queue.suggestions is
    'The queue also receives messages whose header "route" names it.';
comment on column pgq.queue.set_size is
    'Most ids in one ready row: the granularity at which concurrent claims skip each other.';
comment on column pgq.queue.journal is
    'all: acknowledgements are recorded too; failures: only what went wrong.';
comment on column pgq.queue.mode is 'queue: delivered by claim; archive: only kept in the log.';
comment on column pgq.queue.paused is 'Claims return nothing while true.';
comment on column pgq.queue.signal is
    'What NOTIFY says instead of the name where roles have rights: everybody hears it.';
revoke all on table pgq.queue from public;

-- sql/10_schema/12_binding.sql

create table pgq.binding (
    binding_id int generated always as identity,
    queue_id   int not null,
    pattern    text not null,
    regex      text,
    filter     jsonb,
    scope      text,
    path       jsonpath,
    counted    boolean not null default true,
    created_at timestamptz not null default now(),
    constraint binding_pkey primary key (binding_id),
    constraint binding_queue_pattern_unique unique (queue_id, pattern),
    constraint binding_queue_exists foreign key (queue_id) references pgq.queue on delete cascade
);
create index binding_pattern_idx on pgq.binding (pattern) where regex is null;
comment on table pgq.binding is 'Which topics a queue receives, and which of their messages.';
comment on column pgq.binding.pattern is 'A topic, or AMQP words: * is one word, # is any number.';
comment on column pgq.binding.regex is
    'The pattern as a regular expression; null for a plain topic.';
comment on column pgq.binding.filter is 'The filter document; null receives everything.';
comment on column pgq.binding.scope is 'What the compiled filter looks at.';
comment on column pgq.binding.path is 'The compiled filter.';
comment on column pgq.binding.counted is
    'Matches are counted; not those of a queue with its own topic, which would only cost time.';
revoke all on table pgq.binding from public;

-- Publishing looks up its topic here, so that it costs one index probe whatever the number of
-- patterns. Rows of an older version are ignored and swept: nothing waits for anything when a
-- binding changes. Two publishers may learn the same topic at once; either row is right.
create table pgq.route (
    topic        text not null,
    version      bigint not null,
    queue_ids    int[] not null,
    binding_ids  int[] not null,
    dedup_window interval not null
);
create index route_topic_idx on pgq.route (topic, version);
comment on table pgq.route is 'Learnt answers to: who receives this topic?';
comment on column pgq.route.version is 'The routing version that the answer belongs to.';
comment on column pgq.route.queue_ids is
    'Queues that receive every message of the topic, have no lanes and are not counted.';
comment on column pgq.route.binding_ids is 'The bindings of the other queues that receive it.';
comment on column pgq.route.dedup_window is
    'How long a dedup key counts: the longest window of the queues that receive the topic.';
revoke all on table pgq.route from public;

create table pgq.routing (
    version bigint not null
);
insert into pgq.routing values (1);
comment on table pgq.routing is 'One row: the version of all bindings together.';
revoke all on table pgq.routing from public;

-- sql/10_schema/13_era.sql

-- The log is a ring of three eras. The number of the current one lives in a sequence, because a
-- column default can read a sequence in a fraction of a microsecond and a table only in many.
create sequence pgq.era_number minvalue 0;
select pg_catalog.setval('pgq.era_number', 0);
comment on sequence pgq.era_number is 'The current era; it writes into slot number modulo 3.';
revoke all on sequence pgq.era_number from public;

create table pgq.era (
    slot        smallint not null,
    number      bigint not null,
    started_at  timestamptz not null,
    emptied_at  timestamptz,
    retry_at    timestamptz,
    messages    bigint,
    checksum    bigint,
    archived_at timestamptz,
    constraint era_pkey primary key (slot)
);
comment on table pgq.era is 'What each slot of the ring holds; a slot never used has no row.';
comment on column pgq.era.emptied_at is
    'When the slot was truncated; null while it holds messages.';
comment on column pgq.era.retry_at is
    'Emptying failed (somebody was reading): not again before this.';
comment on column pgq.era.messages is
    'How many messages pgq.archive_next has given to be copied.';
comment on column pgq.era.checksum is 'What tells whether a copy of them is faithful.';
comment on column pgq.era.archived_at is
    'When a copy of its messages was confirmed by pgq.archived.';
revoke all on table pgq.era from public;

-- sql/10_schema/14_message.sql

create sequence pgq.message_id;
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
    -- Who inserts tells who it is, because nobody but the owner may write here: for the trigger.
    publisher      text default current_user
) partition by list (era);

-- Each partition has a key of its own: dump and restore need it, and the ring makes one key over
-- all of them impossible (it would have to contain the era).
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
    'The log. Any INSERT or COPY here is a publish: a trigger routes what was inserted.';
comment on column pgq.message.id is 'Given in publishing order, never reused.';
comment on column pgq.message.era is 'The slot of the ring that stores the message.';
comment on column pgq.message.topic is 'What the message is about: words separated by dots.';
comment on column pgq.message.priority is 'Higher is delivered first; 0 unless said.';
comment on column pgq.message.headers is 'An object of scalars, for filters and lanes.';
comment on column pgq.message.payload is 'The message itself.';
comment on column pgq.message.sender is 'Who sent it.';
comment on column pgq.message.recipient is 'Whom it is for; null is everybody.';
comment on column pgq.message.reply_to is 'The topic on which the sender awaits an answer.';
comment on column pgq.message.correlation_id is 'What ties an answer to its question.';
comment on column pgq.message.group_key is 'Messages of one group are delivered in order.';
comment on column pgq.message.dedup_key is
    'A second message of the topic with this key within the queue''s window is not delivered.';
comment on column pgq.message.deliver_at is
    'Not before this. A moment of infinity stores the message and delivers it to nobody.';
comment on column pgq.message.expires_at is 'Not delivered after this.';
comment on column pgq.message.published_at is 'When the publishing transaction began.';
comment on column pgq.message.publisher is
    'The role that published it, which the sender cannot choose; null: the owner, by a function.';
revoke all on table pgq.message, pgq.message_0, pgq.message_1, pgq.message_2 from public;

-- sql/10_schema/15_lane.sql

-- Lanes are labels: two rows with the same label (made by two publishers at once) do no harm,
-- and without a unique constraint no publisher ever waits for another.
create table pgq.lane (
    lane_id   int generated always as identity,
    queue_id  int not null,
    lane_keys text[] not null,
    label     jsonb,
    headers   jsonb,
    idle      xid8,
    constraint lane_pkey primary key (lane_id)
);
create index lane_label_idx on pgq.lane (queue_id, label);
comment on table pgq.lane is
    'The lane dictionary: which header values the ready rows of a lane share.';
comment on column pgq.lane.lane_keys is
    'The keys the label was made from; a lane of other keys than its queue''s is a mixed one.';
comment on column pgq.lane.label is
    'The values in order, [] for a missing one; null: mixed values.';
comment on column pgq.lane.headers is 'The same as a header object: what filters are tested on.';
comment on column pgq.lane.idle is
    'Null: in use. 0: found empty, no longer given to publishers. Else: to be removed when all '
    'transactions before this one have ended.';
revoke all on table pgq.lane from public;

-- sql/10_schema/16_ready.sql

create table pgq.ready (
    queue_id   int not null,
    lane_id    int,
    rank       bigint not null,
    attempt    int not null,
    size       int not null,
    xid        xid8 not null,
    expires_at timestamptz,
    grouped    boolean not null,
    failures   jsonb,
    ids        int8multirange not null
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index ready_rank_idx on pgq.ready (queue_id, rank);
create index ready_lane_idx on pgq.ready (lane_id, rank) where lane_id is not null;
create index ready_xid_idx on pgq.ready (queue_id, xid);
create index ready_expires_idx on pgq.ready (expires_at) where expires_at is not null;
comment on table pgq.ready is
    'What can be claimed: rows that are inserted and deleted, never updated.';
comment on column pgq.ready.lane_id is
    'The lane of all ids in the row; null: the queue has no lanes.';
comment on column pgq.ready.rank is
    'Delivery order, ascending: priority, then what was tried before, then the lowest id.';
comment on column pgq.ready.attempt is 'Deliveries so far.';
comment on column pgq.ready.size is 'How many ids the set holds.';
comment on column pgq.ready.xid is 'Who made the row: lets a filter skip what it has looked at.';
comment on column pgq.ready.grouped is 'The row is the head of an ordering group.';
comment on column pgq.ready.failures is
    'What went wrong before: an array with an object per attempt.';
revoke all on table pgq.ready from public;

-- sql/10_schema/17_scheduled.sql

create table pgq.scheduled (
    queue_id int not null,
    due_at   timestamptz not null,
    attempt  int not null,
    size     int not null,
    grouped  boolean not null default false,
    failures jsonb,
    ids      int8multirange not null
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index scheduled_due_idx on pgq.scheduled (queue_id, due_at);
comment on table pgq.scheduled is 'What becomes ready later: delayed messages and retries.';
comment on column pgq.scheduled.attempt is 'Deliveries so far.';
comment on column pgq.scheduled.grouped is 'The messages are heads of ordering groups.';
revoke all on table pgq.scheduled from public;

-- sql/10_schema/18_lease.sql

create sequence pgq.lease_id maxvalue 8388607 cycle;
comment on sequence pgq.lease_id is 'What tells leases apart that end in the same second.';
revoke all on sequence pgq.lease_id from public;

-- The token begins with the second in which the lease was to end, so that its index finds expired
-- leases too. Without an index on until, claims are cheaper and extending one is HOT.
create table pgq.lease (
    lease_id   bigint not null,
    claimed_at timestamptz not null,
    until      timestamptz not null,
    queue_id   int not null,
    part       int not null,
    attempt    int not null,
    size       int not null,
    grouped    boolean not null,
    journal    boolean not null,
    holder     text,
    client     inet,
    key        text,
    failures   jsonb,
    ids        int8multirange not null
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
    fillfactor = 80
);
create index lease_id_idx on pgq.lease (lease_id) with (fillfactor = 100);
create unique index lease_key_idx on pgq.lease (queue_id, key, part) where key is not null;
comment on table pgq.lease is 'What is being worked on: the sets of one claim, a row per attempt.';
comment on column pgq.lease.lease_id is
    'The token that ack, nack, bury and extend need; it begins with the second of its end.';
comment on column pgq.lease.part is
    'Messages of one claim with another past have a row of their own: 1, 2, ...; 0: the only row.';
comment on column pgq.lease.attempt is 'The number of this delivery, from 1.';
comment on column pgq.lease.grouped is 'The messages are heads of ordering groups.';
comment on column pgq.lease.journal is
    'Whether an ack is recorded, as the queue wanted it when it was claimed.';
comment on column pgq.lease.holder is 'application_name of the claiming session.';
comment on column pgq.lease.key is 'The name that the caller gave to the claim.';
revoke all on table pgq.lease from public;

-- sql/10_schema/19_dead_letter.sql

create table pgq.dead_letter (
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
    constraint dead_letter_pkey primary key (dead_letter_id),
    constraint dead_letter_message_unique unique (queue_id, message_id),
    constraint dead_letter_reason_known check (
        reason in ('processing_error', 'timeout', 'max_attempts', 'expired', 'rejected'))
);
create index dead_letter_failed_idx on pgq.dead_letter (queue_id, failed_at);
comment on table pgq.dead_letter is
    'Whole copies of messages that failed, with why: they outlive the log and its eras.';
comment on column pgq.dead_letter.reason is
    'processing_error: the last attempt was refused with an error; max_attempts: without one; '
    'timeout: its lease expired; rejected: buried by its consumer; expired: never delivered '
    'in time.';
comment on column pgq.dead_letter.error is 'What the last holder said.';
comment on column pgq.dead_letter.details is 'What the last holder said, for programs.';
comment on column pgq.dead_letter.failures is
    'The attempts, oldest first: when, who, how it ended.';
comment on column pgq.dead_letter.holder is 'application_name of the last holder.';
comment on column pgq.dead_letter.client is 'Address of the last holder; null for a local socket.';
comment on column pgq.dead_letter.replay_count is 'How often it was replayed and came back.';
comment on column pgq.dead_letter.replayed_at is 'When it was last replayed.';
revoke all on table pgq.dead_letter from public;
-- See the policy "consumer". Here, because enabling it again would lock the table at every upgrade.
alter table pgq.dead_letter enable row level security;

-- sql/10_schema/20_filter.sql

create table pgq.filter (
    filter_id  bigint generated always as identity,
    hash       bigint not null,
    document   jsonb not null,
    lane_keys  text[],
    scope      text not null,
    path       jsonpath not null,
    lane_path  jsonpath,
    lane_final boolean not null,
    created_at timestamptz not null default now(),
    constraint filter_pkey primary key (filter_id)
);
create index filter_hash_idx on pgq.filter (hash);
comment on table pgq.filter is 'Compiled filters, found by the hash of their document.';
comment on column pgq.filter.lane_keys is 'The lane keys that lane_path was weakened to.';
comment on column pgq.filter.lane_path is 'The filter weakened to the lane keys.';
comment on column pgq.filter.lane_final is 'The lane keys alone decide: no message needs testing.';
revoke all on table pgq.filter from public;

-- Updated only by a claim that tested many messages, and then by one claim at a time.
create table pgq.filter_scan (
    filter_id bigint not null,
    queue_id  int not null,
    snapshot  pg_snapshot not null,
    rank      bigint not null,
    constraint filter_scan_pkey primary key (filter_id, queue_id)
) with (fillfactor = 50);
comment on table pgq.filter_scan is
    'How far a filter has looked in a queue: no ready row that the snapshot could see and that '
    'stands before the rank holds a match.';
revoke all on table pgq.filter_scan from public;

-- Claims append, maintain() adds up: no row is ever hot.
create table pgq.filter_hit (
    filter_id bigint not null,
    queue_id  int not null,
    claims    bigint not null,
    tested    bigint not null,
    matched   bigint not null,
    used_at   timestamptz not null,
    last_at   timestamptz
);
comment on table pgq.filter_hit is 'How filters fare; the rows of a filter add up.';
comment on column pgq.filter_hit.filter_id is '0: filters that are forgotten.';
comment on column pgq.filter_hit.last_at is 'The last claim that found a match.';
revoke all on table pgq.filter_hit from public;

-- sql/10_schema/21_journal.sql

create table pgq.journal (
    era        smallint not null default (pg_sequence_last_value('pgq.era_number') % 3),
    at         timestamptz not null,
    queue_id   int not null,
    event      text not null,
    attempt    int not null,
    size       int not null,
    lease_id   bigint,
    claimed_at timestamptz,
    holder     text,
    client     inet,
    error      text,
    ids        int8multirange not null
) partition by list (era);
create table pgq.journal_0 partition of pgq.journal for values in (0);
create table pgq.journal_1 partition of pgq.journal for values in (1);
create table pgq.journal_2 partition of pgq.journal for values in (2);
comment on table pgq.journal is
    'What happened to messages, a row per call that ended a lease or moved a set. The publish is '
    'in the message itself, the claim in the row that ended it (or still in the lease).';
comment on column pgq.journal.event is
    'ack, nack, release, bury, timeout, expire, replay or discard.';
revoke all on table pgq.journal, pgq.journal_0, pgq.journal_1, pgq.journal_2 from public;

-- sql/10_schema/22_dedup.sql

create table pgq.dedup (
    topic      text not null,
    dedup_key  text not null,
    message_id bigint not null,
    until      timestamptz not null,
    constraint dedup_pkey primary key (topic, dedup_key)
);
create index dedup_until_idx on pgq.dedup (until);
comment on table pgq.dedup is 'Dedup keys seen within their window, and the message that won.';
revoke all on table pgq.dedup from public;

-- sql/10_schema/23_types.sql

create type pgq.claimed as (
    lease_id       bigint,
    id             bigint,
    topic          text,
    priority       int,
    attempt        int,
    headers        jsonb,
    payload        jsonb,
    sender         text,
    recipient      text,
    reply_to       text,
    correlation_id text,
    group_key      text,
    published_at   timestamptz,
    expires_at     timestamptz,
    lease_until    timestamptz
);
comment on type pgq.claimed is 'A message in the hands of a consumer.';
revoke all on type pgq.claimed from public;

-- Sets taken from ready, in delivery order; the arrays run in parallel. Missed are rows of which
-- another transaction is just taking a part.
create type pgq._taken as (
    size     int,
    sets     int8multirange[],
    attempts int[],
    failures jsonb[],
    grouped  boolean[],
    missed   tid[]
);
comment on type pgq._taken is 'Sets on their way from ready to a lease.';
revoke all on type pgq._taken from public;

-- sql/10_schema/24_group.sql

-- Of an ordering group only the head is ready, scheduled or leased; the others wait in line. So
-- blocked messages cost nothing: no claim ever looks at them.
create table pgq.group_head (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    constraint group_head_pkey primary key (queue_id, group_key)
) with (fillfactor = 80);
comment on table pgq.group_head is 'The message of each ordering group whose turn it is.';
revoke all on table pgq.group_head from public;

create table pgq.group_line (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    failures   jsonb,
    constraint group_line_pkey primary key (queue_id, group_key, message_id)
);
comment on table pgq.group_line is 'The messages of ordering groups that wait for their turn.';
revoke all on table pgq.group_line from public;

create table pgq.group_stall (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null
);
create index group_stall_queue_idx on pgq.group_stall (queue_id);
comment on table pgq.group_stall is
    'Groups whose head is done while a publisher held the group: later claims move them on.';
revoke all on table pgq.group_stall from public;

-- sql/10_schema/25_waiter.sql

create table pgq.waiter (
    queue_id int not null,
    waiter   text not null,
    until    timestamptz not null,
    horizon  xid8,
    armed    boolean not null default false,
    constraint waiter_pkey primary key (queue_id, waiter)
) with (fillfactor = 50);
comment on table pgq.waiter is 'Consumers that sleep, or are about to: publishing wakes them.';
comment on column pgq.waiter.until is 'A waiter that is not heard of until then is forgotten.';
comment on column pgq.waiter.horizon is
    'Publishers before this transaction may not have seen the waiter.';
comment on column pgq.waiter.armed is 'They have all ended: no message can come unannounced.';
revoke all on table pgq.waiter from public;

-- sql/10_schema/26_handled.sql

create table pgq.handled (
    handled_id bigint generated always as identity,
    handler    text not null,
    message_id bigint not null,
    handled_at timestamptz not null,
    constraint handled_pkey primary key (handler, message_id)
);
create index handled_order_idx on pgq.handled (handler, handled_id);
create index handled_at_idx on pgq.handled (handled_at);
comment on table pgq.handled is
    'Which messages a handler has seen: the newest, a ring per handler.';
revoke all on table pgq.handled from public;

-- sql/10_schema/27_binding_hit.sql

-- Publishing appends, maintain() adds up: no row is ever hot.
create table pgq.binding_hit (
    binding_id int not null,
    matches    bigint not null,
    last_at    timestamptz not null
);
comment on table pgq.binding_hit is 'How often subscriptions match; the rows of a binding add up.';
revoke all on table pgq.binding_hit from public;

-- sql/10_schema/28_queue_right.sql

-- Who calls? A function with its owner's rights cannot ask for current_user, which is the owner,
-- and must not ask for session_user or the setting "role": when a superuser analyzes a table, they
-- say superuser, while the functions in that table's indexes run as the table's owner. So the
-- caller is a parameter, current_user by default: defaults are evaluated and domains are checked
-- before the function begins, with the caller's own identity, and no other value passes.
create domain pgq.caller as name not null
    constraint caller_is_current_user check (value = current_user);
comment on domain pgq.caller is
    'The role that calls a function: leave it out. It is current_user, and can be nothing else.';
-- Nobody needs it to call a function. With it one could store values, to be used by another role.
revoke all on type pgq.caller from public;

create table pgq.queue_right (
    queue_id int not null,
    -- By oid, so that a later role of the same name inherits nothing; shown and dumped by name.
    role     regrole not null,
    "right"  text not null,
    constraint queue_right_pkey primary key (queue_id, role, "right"),
    constraint queue_right_queue_exists foreign key (queue_id) references pgq.queue
        on delete cascade,
    constraint queue_right_known check ("right" in ('publish', 'consume', 'admin'))
);
comment on table pgq.queue_right is 'What roles may do with queues: written by grant and revoke.';
comment on column pgq.queue_right.role is 'The role; its members have the right too.';
comment on column pgq.queue_right."right" is
    'publish: to the topics that the queue receives; consume: claim and look; admin: both, and '
    'change or drop the queue.';
revoke all on table pgq.queue_right from public;

-- sql/10_schema/28_staged.sql

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
    constraint writer_pkey primary key (writer)
) with (fillfactor = 50);
comment on table pgq.writer is
    'The last epoch that each named writer has published: the same one again does nothing.';
comment on column pgq.writer.size is 'How many messages that epoch had.';
revoke all on table pgq.writer from public;

-- sql/10_schema/29_stream.sql

create table pgq.stream (
    queue_id int not null,
    consumer text not null,
    batch    bigint not null,
    owner    text,
    until    timestamptz not null,
    constraint stream_pkey primary key (queue_id, consumer)
) with (fillfactor = 50);
comment on table pgq.stream is
    'Consumers that work in numbered batches, each a named claim: what the checkpoint of a stream '
    'refers to.';
comment on column pgq.stream.batch is 'The last batch that is finished; its messages are done.';
comment on column pgq.stream.owner is 'The process that has the name now; null: none.';
comment on column pgq.stream.until is
    'An owner that is not heard of until then has lost the name.';
revoke all on table pgq.stream from public;

-- sql/10_schema/30_archive.sql

create table pgq.archive (
    wait interval not null
);
comment on table pgq.archive is
    'One row while somebody archives the log: an era that has not been archived is kept for this '
    'long beyond its retention. No row: eras wait for nobody.';
revoke all on table pgq.archive from public;

-- sql/10_schema/31_outcome.sql

-- What goes wrong is counted for good, also when the journal's era is emptied. Whoever counts
-- appends, maintain() adds up: no row is ever hot. Acknowledgements are not in here: they would
-- cost every one of them a row more.
create table pgq.outcome (
    queue_id int not null,
    event    text not null,
    reason   text,
    size     bigint not null
);
comment on table pgq.outcome is
    'How often messages of a queue were not simply done; the rows of a queue add up.';
comment on column pgq.outcome.event is 'nack, bury, timeout, expire, release, replay or discard.';
comment on column pgq.outcome.reason is 'Why they became dead letters; null: they did not.';
revoke all on table pgq.outcome from public;

-- sql/10_schema/31_relay.sql

create table pgq.relay (
    queue_id    int not null,
    relay       text not null,
    destination text not null,
    circuit     text not null,
    error       text,
    changed_at  timestamptz not null,
    constraint relay_pkey primary key (queue_id, relay),
    constraint relay_circuit_known check (circuit in ('closed', 'open', 'half-open'))
) with (fillfactor = 50);
comment on table pgq.relay is
    'What relays say of their destinations; the stream of the same name says whether they live.';
comment on column pgq.relay.circuit is
    'closed: messages flow; open: the destination is left alone for a while; half-open: it is '
    'being tried.';
comment on column pgq.relay.error is 'Why the last sending failed; null: it did not.';
comment on column pgq.relay.changed_at is 'Since when the circuit is what it is.';
revoke all on table pgq.relay from public;

-- sql/10_schema/31_turn.sql

-- Locks of pgq's own. Advisory locks are no choice: their numbers belong to everybody, and a role
-- without any right could hold them.
create table pgq.turn (
    what text not null,
    constraint turn_pkey primary key (what)
);
insert into pgq.turn values ('era'), ('maintain'), ('replay'), ('right');
comment on table pgq.turn is 'What only one transaction does at a time.';
revoke all on table pgq.turn from public;

-- sql/10_schema/99_dump.sql

-- What pg_dump has to carry: all state, but not what is learnt again (routes, compiled filters).
select pg_catalog.pg_extension_config_dump('pgq.queue', '');
select pg_catalog.pg_extension_config_dump('pgq.queue_queue_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.binding', '');
select pg_catalog.pg_extension_config_dump('pgq.binding_binding_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.era', '');
select pg_catalog.pg_extension_config_dump('pgq.era_number', '');
select pg_catalog.pg_extension_config_dump('pgq.message_0', '');
select pg_catalog.pg_extension_config_dump('pgq.message_1', '');
select pg_catalog.pg_extension_config_dump('pgq.message_2', '');
select pg_catalog.pg_extension_config_dump('pgq.message_id', '');
select pg_catalog.pg_extension_config_dump('pgq.lane', '');
select pg_catalog.pg_extension_config_dump('pgq.lane_lane_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.ready', '');
select pg_catalog.pg_extension_config_dump('pgq.scheduled', '');
select pg_catalog.pg_extension_config_dump('pgq.lease', '');
select pg_catalog.pg_extension_config_dump('pgq.lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.dead_letter', '');
select pg_catalog.pg_extension_config_dump('pgq.dead_letter_dead_letter_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.journal_0', '');
select pg_catalog.pg_extension_config_dump('pgq.journal_1', '');
select pg_catalog.pg_extension_config_dump('pgq.journal_2', '');
select pg_catalog.pg_extension_config_dump('pgq.dedup', '');
select pg_catalog.pg_extension_config_dump('pgq.group_head', '');
select pg_catalog.pg_extension_config_dump('pgq.group_line', '');
select pg_catalog.pg_extension_config_dump('pgq.group_stall', '');
select pg_catalog.pg_extension_config_dump('pgq.handled', '');
select pg_catalog.pg_extension_config_dump('pgq.handled_handled_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.binding_hit', '');
select pg_catalog.pg_extension_config_dump('pgq.outcome', '');
select pg_catalog.pg_extension_config_dump('pgq.writer', '');
select pg_catalog.pg_extension_config_dump('pgq.stream', '');
select pg_catalog.pg_extension_config_dump('pgq.archive', '');
select pg_catalog.pg_extension_config_dump('pgq.relay', '');
-- Not the rights of roles that are gone: their numbers may be those of others elsewhere.
select pg_catalog.pg_extension_config_dump('pgq.queue_right',
    'where exists (select from pg_catalog.pg_roles r where r.oid = role)');

-- sql/20_filter/00_filter_error.sql

-- Refuses a filter document: what is wrong, where in the document, and what to write instead.
create function pgq._filter_error(message text, at text, hint text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'QU004',
        message = 'invalid filter: ' || _filter_error.message,
        detail = 'At ' || _filter_error.at || '.',
        hint = _filter_error.hint;
end
$$;
comment on function pgq._filter_error(text, text, text) is
    'Raises QU004 with the place in the document as DETAIL and the cure as HINT.';
revoke all on function pgq._filter_error(text, text, text) from public;

-- sql/20_filter/01_regex_quote.sql

-- Text as a regular expression that matches just this text.
create function pgq._regex_quote(literal text)
returns text
language sql immutable strict parallel safe
return pg_catalog.regexp_replace(literal, '([][\\.^$*+?(){}|])', '\\\1', 'g');
comment on function pgq._regex_quote(text) is
    'Escapes the characters that mean something in a regular expression.';
revoke all on function pgq._regex_quote(text) from public;

-- sql/20_filter/02_topic_regex.sql

-- AMQP topic pattern -> anchored regular expression; QU004 for a pattern that no topic can mean.
create function pgq._topic_regex(pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_word text;
    v_last text;
    v_regex text := '';
begin
    if length(pattern) > 1024 then
        perform pgq._filter_error('the topic pattern is too long', 'the topic pattern',
            'A topic pattern has at most 1024 characters.');
    end if;
    foreach v_word in array string_to_array(pattern, '.') loop
        if v_word = '' then
            perform pgq._filter_error('the topic pattern has an empty word', 'the topic pattern '
                || left(to_json(pattern)::text, 80),
                'Words are separated by single dots: orders.created, orders.*, orders.#');
        elsif v_word not in ('*', '#') and v_word ~ '[*#]' then
            perform pgq._filter_error('a wildcard must be a whole word', 'the topic pattern '
                || left(to_json(pattern)::text, 80),
                'Write * for one word or # for any number of words: orders.*, orders.#');
        end if;
        -- a # directly after a # adds nothing; a # in front carries its dot behind it
        if v_word = '#' then
            v_regex := v_regex || case
                when v_last is null then E'(?:[^.]+\\.)*'
                when v_last = '#' then ''
                else E'(?:\\.[^.]+)*' end;
        else
            v_regex := v_regex
                || case when v_last is null or v_regex = E'(?:[^.]+\\.)*' then '' else E'\\.' end
                || case when v_word = '*' then '[^.]+' else pgq._regex_quote(v_word) end;
        end if;
        v_last := v_word;
    end loop;
    if v_last is null then
        perform pgq._filter_error('the topic pattern is empty', 'the topic pattern',
            'Write # to match every topic.');
    end if;
    return case when v_regex = E'(?:[^.]+\\.)*' then '^' else '^' || v_regex || '$' end;
end
$$;
comment on function pgq._topic_regex(text) is
    'The regular expression of a topic pattern: * is one word, # is zero or more words.';
revoke all on function pgq._topic_regex(text) from public;

-- sql/20_filter/03_matches_topic.sql

-- Does a topic match an AMQP pattern? The one meaning of wildcards: subscriptions use it too.
create function pgq.matches_topic(pattern text, topic text)
returns boolean
language sql immutable strict parallel safe security definer
set search_path = pg_catalog, pg_temp
return topic operator(pg_catalog.~) pgq._topic_regex(pattern);
comment on function pgq.matches_topic(text, text) is
    'Whether the topic matches the pattern: * is exactly one word, # is zero or more words,
words are separated by dots, case matters. An impossible pattern is refused with QU004.';
revoke all on function pgq.matches_topic(text, text) from public;

-- sql/20_filter/10_filter_node.sql

-- One test of one field, as a leaf of the syntax tree.
create function pgq._filter_node(
    operator text, scope text, path text[], value jsonb default null)
returns jsonb
language sql stable parallel safe
return case when value is null
    then pg_catalog.jsonb_build_object('op', operator, 'in', scope, 'path', path)
    else pg_catalog.jsonb_build_object('op', operator, 'in', scope, 'path', path, 'value', value)
    end;
comment on function pgq._filter_node(text, text, text[], jsonb) is
    'A leaf of the syntax tree of a filter: {"op", "in", "path", "value"}.';
revoke all on function pgq._filter_node(text, text, text[], jsonb) from public;

-- sql/20_filter/11_filter_combine.sql

-- and / or of trees; constants vanish, nested nodes of the same kind are spliced in.
create function pgq._filter_combine(operator text, trees jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_neutral jsonb := to_jsonb(operator = 'and');
    v_absorbing jsonb := to_jsonb(operator = 'or');
    v_of jsonb := '[]';
    v_tree jsonb;
begin
    foreach v_tree in array trees loop
        if v_tree = v_absorbing then
            return v_absorbing;
        elsif v_tree = v_neutral then
            continue;
        elsif v_tree ->> 'op' = operator then
            v_of := v_of || (v_tree -> 'of');
        else
            v_of := v_of || jsonb_build_array(v_tree);
        end if;
    end loop;
    return case jsonb_array_length(v_of)
        when 0 then v_neutral
        when 1 then v_of -> 0
        else jsonb_build_object('op', operator, 'of', v_of) end;
end
$$;
comment on function pgq._filter_combine(text, jsonb[]) is
    'Joins trees by and / or, simplified.';
revoke all on function pgq._filter_combine(text, jsonb[]) from public;

-- sql/20_filter/12_filter_negate.sql

-- The complement of a tree.
create function pgq._filter_negate(tree jsonb)
returns jsonb
language sql stable parallel safe
return case
    when tree operator(pg_catalog.=) 'true'::jsonb then 'false'::jsonb
    when tree operator(pg_catalog.=) 'false'::jsonb then 'true'::jsonb
    when (tree operator(pg_catalog.->>) 'op') operator(pg_catalog.=) 'not'
        then tree operator(pg_catalog.->) 'of'
    else pg_catalog.jsonb_build_object('op', 'not', 'of', tree) end;
comment on function pgq._filter_negate(jsonb) is 'The complement of a tree, simplified.';
revoke all on function pgq._filter_negate(jsonb) from public;

-- sql/20_filter/13_filter_pattern.sql

-- The regular expression of a text operator; NULL for a pattern that ends inside an escape.
create function pgq._filter_pattern(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_regex text;
begin
    case operator
        when 'like', 'ilike' then
            if pattern ~ E'^(?:[^\\\\]|\\\\.)*\\\\$' then
                return null;
            end if;
            select coalesce(string_agg(case
                    when t.part[1] is not null then pgq._regex_quote(t.part[1])
                    when t.part[2] is not null then '.*'
                    when t.part[3] is not null then '.'
                    else pgq._regex_quote(t.part[4]) end, '' order by t.position), '')
            into v_regex
            from regexp_matches(pattern, E'\\\\(.)|(%+)|(_)|([^\\\\%_]+)', 'g')
                with ordinality as t (part, position);
        when 'wildcard' then
            if pattern !~ E'^(?:[^\\\\]|\\\\[*\\\\])*$' then
                return null;
            end if;
            select coalesce(string_agg(case
                    when t.part[1] is not null then pgq._regex_quote(t.part[1])
                    when t.part[2] is not null then '.*'
                    else pgq._regex_quote(t.part[3]) end, '' order by t.position), '')
            into v_regex
            from regexp_matches(pattern, E'\\\\([*\\\\])|(\\*+)|([^\\\\*]+)', 'g')
                with ordinality as t (part, position);
        when 'topic' then
            return pgq._topic_regex(pattern);
        when 'ieq' then
            v_regex := pgq._regex_quote(pattern);
        when 'suffix' then
            v_regex := '.*' || pgq._regex_quote(pattern);
        else
            return pattern;
    end case;
    -- an open end needs no anchor, and is cheaper without
    return case when v_regex like '.*%' then substr(v_regex, 3) || '$'
        when v_regex ~ E'[^\\\\]\\.\\*$' then '^' || left(v_regex, -2)
        else '^' || v_regex || '$' end;
end
$$;
comment on function pgq._filter_pattern(text, text) is
    'The regular expression that a text operator of the filter language stands for.';
revoke all on function pgq._filter_pattern(text, text) from public;

-- sql/20_filter/20_filter_check_pattern.sql

-- Refuses a text operand that is too long, or that PostgreSQL cannot compile.
-- Catching the error takes a subtransaction, which a parallel plan cannot start before
-- PostgreSQL 17.
create function pgq._filter_check_pattern(operator text, pattern jsonb, at text)
returns void
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pattern text := pattern #>> '{}';
    v_limit int := case when operator in ('regex', 'iregex') then 512 else 1024 end;
    v_regex text;
    v_reason text;
begin
    if jsonb_typeof(pattern) is distinct from 'string' then
        perform pgq._filter_error('the operand must be a string', at,
            'Text operators compare strings: {"key": {"$like": "order-%"}}');
    elsif length(v_pattern) > v_limit then
        perform pgq._filter_error('the pattern is too long', at,
            format('A pattern has at most %s characters.', v_limit));
    elsif operator in ('prefix', 'substr') then
        return;
    elsif operator in ('regex', 'iregex') and v_pattern ~ E'^(?:[^\\\\]|\\\\[^1-9])*\\\\[1-9]' then
        perform pgq._filter_error('back-references are not supported', at,
            E'Write the regular expression without \\1 to \\9.');
    end if;
    begin
        v_regex := pgq._filter_pattern(operator, v_pattern);
        perform '' ~ v_regex;
    exception
        when sqlstate 'QU004' then
            get stacked diagnostics v_reason = pg_exception_hint;
            perform pgq._filter_error('the topic pattern is not valid', at, v_reason);
        when invalid_regular_expression then
            perform pgq._filter_error('the pattern does not compile', at,
                'PostgreSQL says: ' || sqlerrm || '.');
    end;
    if v_regex is null then
        perform pgq._filter_error('the pattern has a stray backslash', at, case operator
            when 'wildcard' then E'Write \\* for a star and \\\\ for a backslash.'
            else E'Write \\\\ for a backslash, \\% and \\_ for the characters % and _.' end);
    end if;
end
$$;
comment on function pgq._filter_check_pattern(text, jsonb, text) is
    'Validates the operand of a text operator; QU004 if it cannot be used.';
revoke all on function pgq._filter_check_pattern(text, jsonb, text) from public;

-- sql/20_filter/21_filter_moment.sql

-- A timestamp operand as epoch seconds, or {"now": seconds} for a moment relative to now.
-- Only ISO 8601 is read, in UTC if no zone is given, so that no session setting can matter.
create function pgq._filter_moment(operand jsonb, at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set intervalstyle = 'postgres'
as $$
declare
    v_hint constant text :=
        'Write "2030-01-31", "2030-01-31T12:00:00Z", or {"$now": "-1 hour"} for a moment from now.';
    v_text text := operand #>> '{}';
    v_seconds numeric;
begin
    if jsonb_typeof(operand) = 'object' and operand ? '$now' then
        if operand - '$now' <> '{}' or jsonb_typeof(operand -> '$now') <> 'string' then
            perform pgq._filter_error('$now takes one interval', at,
                'Write {"$now": "-1 hour"}, and {"$now": "0 s"} for now.');
        end if;
        v_seconds := extract(epoch from (operand ->> '$now')::interval);
        if v_seconds not between -1e12 and 1e12 then
            perform pgq._filter_error('the interval is too long', at, v_hint);
        end if;
        return jsonb_build_object('now', v_seconds);
    end if;
    if jsonb_typeof(operand) is distinct from 'string' or v_text !~ (E'^\\d{4}-\\d{2}-\\d{2}'
            || E'([T ]\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,6})?)?( ?(Z|[+-]\\d{2}(:?\\d{2})?))?)?$') then
        perform pgq._filter_error('the operand must be a timestamp', at, v_hint);
    end if;
    return to_jsonb(extract(epoch from v_text::timestamptz));
exception
    when data_exception then
        perform pgq._filter_error('the operand is not a valid moment', at, v_hint);
        return null;  -- not reached
end
$$;
comment on function pgq._filter_moment(jsonb, text) is
    'A timestamp or {"$now": interval} as a number that can be compared; QU004 if it is neither.';
revoke all on function pgq._filter_moment(jsonb, text) from public;

-- sql/20_filter/22_filter_membership.sql

-- The field equals one of these scalars. In msg there is no JSON null: null means missing.
create function pgq._filter_membership(
    scope text, path text[], operands jsonb, at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_time boolean := scope = 'msg' and path[1] in ('published_at', 'expires_at');
    v_null boolean := operands @> '[null]' and scope = 'msg';
    v_operands jsonb;
    v_tree jsonb := 'false';
begin
    select jsonb_agg(distinct case when v_time then pgq._filter_moment(o.operand, at)
        else o.operand end)
    into v_operands
    from jsonb_array_elements(operands) as o (operand)
    where not (v_null and o.operand = 'null');
    if jsonb_array_length(v_operands) = 1 then
        v_tree := pgq._filter_node('eq', scope, path, v_operands -> 0);
    elsif v_operands is not null then
        v_tree := pgq._filter_node('in', scope, path, v_operands);
    end if;
    if v_null then
        v_tree := pgq._filter_combine('or', array[v_tree,
            pgq._filter_negate(pgq._filter_node('some', scope, path))]);
    end if;
    return v_tree;
end
$$;
comment on function pgq._filter_membership(text, text[], jsonb, text) is
    'The tree of "the field equals one of these scalars".';
revoke all on function pgq._filter_membership(text, text[], jsonb, text) from public;

-- sql/20_filter/23_filter_unless.sql

-- A negative operator: the field has a value, and the positive test fails on it.
create function pgq._filter_unless(scope text, path text[], tree jsonb)
returns jsonb
language sql stable parallel safe
return pgq._filter_combine('and',
    array[pgq._filter_node('some', scope, path), pgq._filter_negate(tree)]);
comment on function pgq._filter_unless(text, text[], jsonb) is
    'The tree of a negative operator: missing and null fail it, as they fail the positive one.';
revoke all on function pgq._filter_unless(text, text[], jsonb) from public;

-- sql/20_filter/24_filter_check_list.sql

-- Refuses an operand that is not a list, is empty, is too long, or holds more than scalars.
create function pgq._filter_check_list(operand jsonb, scalars boolean, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(operand) is distinct from 'array' then
        perform pgq._filter_error('the operand must be a list', at,
            'Write the values in brackets: ["a", "b"]');
    elsif jsonb_array_length(operand) = 0 then
        perform pgq._filter_error('the list is empty', at, 'Name at least one value.');
    elsif jsonb_array_length(operand) > 1000 then
        perform pgq._filter_error('the list is too long', at,
            'A list has at most 1000 values; give the messages a header that says the same.');
    elsif scalars and jsonb_path_exists(operand,
            'strict $[*] ? (@.type() == "array" || @.type() == "object")') then
        perform pgq._filter_error('the list must hold strings, numbers, booleans or null', at,
            'Compare whole arrays and objects with $eq.');
    end if;
end
$$;
comment on function pgq._filter_check_list(jsonb, boolean, text) is
    'Validates a list operand; QU004 if it cannot be used.';
revoke all on function pgq._filter_check_list(jsonb, boolean, text) from public;

-- sql/20_filter/25_filter_check_structure.sql

-- Refuses an array or object operand that is too large or too deep to be compared.
create function pgq._filter_check_structure(operand jsonb, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- the strict path counts the operand itself, too
    if (select count(*) from jsonb_path_query(operand, 'strict $.**')) > 1001 then
        perform pgq._filter_error('the operand is too large', at,
            'An array or object to compare with holds at most 1000 values.');
    elsif jsonb_path_exists(operand, 'strict $.**{9}') then
        perform pgq._filter_error('the operand is nested too deeply', at,
            'An array or object to compare with is nested at most 8 levels deep.');
    end if;
end
$$;
comment on function pgq._filter_check_structure(jsonb, text) is
    'Validates an array or object operand; QU004 if it is over a limit.';
revoke all on function pgq._filter_check_structure(jsonb, text) from public;

-- sql/20_filter/26_filter_check_path.sql

-- Refuses a path that is too long, or a field that msg does not have.
create function pgq._filter_check_path(scope text, path text[], at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(path) > 16 then
        perform pgq._filter_error('the path is too long', at, 'A path has at most 16 keys.');
    elsif scope = 'msg' and (cardinality(path) <> 1 or path[1] not in ('topic', 'priority',
            'sender', 'recipient', 'reply_to', 'correlation_id', 'group_key', 'attempt',
            'published_at', 'expires_at', 'id')) then
        perform pgq._filter_error('the message has no such field', at,
            'The fields of msg are topic, priority, sender, recipient, reply_to, correlation_id, '
            'group_key, attempt, published_at, expires_at and id.');
    end if;
end
$$;
comment on function pgq._filter_check_path(text, text[], text) is
    'Validates the length of a path and the names of msg; QU004 if it cannot be used.';
revoke all on function pgq._filter_check_path(text, text[], text) from public;

-- sql/20_filter/30_filter_parse_name.sql

-- A field name as {scope, key, key, ...}; inside a block names are relative to it.
create function pgq._filter_parse_name(
    name text, scope text, prefix text[], at text)
returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_keys text[] := string_to_array(name, '.');
    v_scope text := scope;
    v_key text;
begin
    if name = '' then
        v_keys := array[''];
    end if;
    if scope is null then
        if v_keys[1] in ('headers', 'payload', 'msg') and cardinality(v_keys) > 1 then
            v_scope := v_keys[1];
            v_keys := v_keys[2:];
        elsif cardinality(v_keys) = 1 then
            v_scope := 'headers';
        else
            perform pgq._filter_error('a path must start with headers, payload or msg', at,
                'Write "payload.' || left(name, 64) || '" for a field of the payload, or '
                '{"$path": ["headers", "a.b"], ...} for a header with a dot in its name.');
        end if;
    end if;
    foreach v_key in array v_keys loop
        if v_key !~ '^[a-zA-Z][a-zA-Z0-9_-]*$' then
            perform pgq._filter_error('invalid key ' || left(to_json(v_key)::text, 64), at,
                'A key is a letter, then letters, digits, _ and -. '
                'Write any other as {"$path": ["payload", "a.b"], "$eq": ...}.');
        elsif length(v_key) > 128 then
            perform pgq._filter_error('the key is too long', at,
                'A key has at most 128 characters.');
        end if;
    end loop;
    perform pgq._filter_check_path(v_scope, prefix || v_keys, at);
    return v_scope || (prefix || v_keys);
end
$$;
comment on function pgq._filter_parse_name(text, text, text[], text) is
    'Splits and validates a field name of a filter; QU004 if it cannot be used.';
revoke all on function pgq._filter_parse_name(text, text, text[], text) from public;

-- sql/20_filter/31_filter_parse_path.sql

-- The operand of $path as {scope, key, key, ...}; inside a block it is relative to it.
create function pgq._filter_parse_path(
    operand jsonb, scope text, prefix text[], at text)
returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Write {"$path": ["payload", "a.b", "c"], "$eq": 1}: '
        'a list of keys, with headers, payload or msg in front unless a block names it.';
    v_keys text[];
    v_scope text := scope;
begin
    if jsonb_typeof(operand) is distinct from 'array' or jsonb_array_length(operand) = 0
            or jsonb_path_exists(operand, 'strict $[*] ? (@.type() != "string")') then
        perform pgq._filter_error('$path must be a list of keys', at, v_hint);
    end if;
    v_keys := array(select jsonb_array_elements_text(operand));
    if scope is null then
        if v_keys[1] not in ('headers', 'payload', 'msg') or cardinality(v_keys) = 1 then
            perform pgq._filter_error('$path must name a scope and a key', at, v_hint);
        end if;
        v_scope := v_keys[1];
        v_keys := v_keys[2:];
    end if;
    if (select bool_or(length(k.key) not between 1 and 128) from unnest(v_keys) as k (key)) then
        perform pgq._filter_error('$path has an empty key, or one that is too long', at,
            'A key has 1 to 128 characters.');
    end if;
    perform pgq._filter_check_path(v_scope, prefix || v_keys, at);
    return v_scope || (prefix || v_keys);
end
$$;
comment on function pgq._filter_parse_path(jsonb, text, text[], text) is
    'Validates the operand of $path; QU004 if it cannot be used.';
revoke all on function pgq._filter_parse_path(jsonb, text, text[], text) from public;

-- sql/20_filter/32_filter_range.sql

-- The field lies within bounds, for example {"gt": 0, "lte": 150}: all of one type.
create function pgq._filter_range(scope text, path text[], bounds jsonb, at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bounds jsonb := bounds;
begin
    if scope = 'msg' and path[1] in ('published_at', 'expires_at') then
        select jsonb_object_agg(b.key, pgq._filter_moment(b.value, at))
        into v_bounds
        from jsonb_each(bounds) as b;
    elsif jsonb_path_exists(bounds, 'strict $.*."$now"', silent => true) then
        perform pgq._filter_error('$now is for the timestamps of msg', at,
            'Compare msg.published_at or msg.expires_at with {"$now": "-1 hour"}.');
    elsif exists (select from jsonb_each(bounds) as b
            where jsonb_typeof(b.value) not in ('string', 'number')) then
        perform pgq._filter_error('only strings and numbers have an order', at,
            'Compare with a string or a number: {"payload.amount": {"$gt": 100}}');
    elsif (select count(distinct jsonb_typeof(b.value)) from jsonb_each(bounds) as b) > 1 then
        perform pgq._filter_error('both bounds must be of one type', at,
            'Give two numbers or two strings.');
    end if;
    return pgq._filter_node('range', scope, path, v_bounds);
end
$$;
comment on function pgq._filter_range(text, text[], jsonb, text) is
    'The tree of an order test; QU004 if the bounds cannot be compared.';
revoke all on function pgq._filter_range(text, text[], jsonb, text) from public;

-- sql/20_filter/33_filter_parse_operator.sql

-- One $operator of one field -> tree, and the nodes it counts for.
create function pgq._filter_parse_operator(
    operator text, operand jsonb, options jsonb, scope text, path text[], at text, depth int,
    out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type text := jsonb_typeof(operand);
    v_name text := substr(operator, 2);
    v_time constant boolean := scope = 'msg' and path[1] in ('published_at', 'expires_at');
begin
    nodes := 1;
    if v_time and operator not in ('$eq', '$ne', '$in', '$nin', '$gt', '$gte', '$lt', '$lte',
            '$between', '$exists', '$isNull') then
        perform pgq._filter_error('timestamps cannot be tested with ' || left(operator, 64), at,
            'Timestamps know $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $between, $exists and '
            '$isNull.');
    end if;
    case operator
        when '$eq', '$ne' then
            if v_type = 'object' and operand ? '$now' then
                tree := pgq._filter_range(scope, path,
                    jsonb_build_object('gte', operand, 'lte', operand), at);
            elsif v_type in ('array', 'object') and not v_time then
                perform pgq._filter_check_structure(operand, at);
                tree := pgq._filter_node('eq', scope, path, operand);
            else
                tree := pgq._filter_membership(scope, path, jsonb_build_array(operand), at);
            end if;
            if operator = '$ne' then
                tree := pgq._filter_unless(scope, path, tree);
            end if;
        when '$in', '$nin' then
            perform pgq._filter_check_list(operand, true, at);
            tree := pgq._filter_membership(scope, path, operand, at);
            if operator = '$nin' then
                tree := pgq._filter_unless(scope, path, tree);
            end if;
        when '$gt', '$gte', '$lt', '$lte' then
            tree := pgq._filter_range(scope, path, jsonb_build_object(v_name, operand), at);
        when '$between' then
            if v_type <> 'array' or jsonb_array_length(operand) <> 2 then
                perform pgq._filter_error('$between takes two bounds', at,
                    'Write {"$between": [1, 10]}; both bounds are included.');
            end if;
            tree := pgq._filter_range(scope, path,
                jsonb_build_object('gte', operand -> 0, 'lte', operand -> 1), at);
        when '$like', '$ilike', '$prefix', '$suffix', '$substr', '$ieq', '$wildcard', '$topic' then
            perform pgq._filter_check_pattern(v_name, operand, at);
            tree := pgq._filter_node(v_name, scope, path, operand);
        when '$nlike' then
            perform pgq._filter_check_pattern('like', operand, at);
            tree := pgq._filter_unless(scope, path,
                pgq._filter_node('like', scope, path, operand));
        when '$regex' then
            if options is not null and options not in ('""', '"i"') then
                perform pgq._filter_error('unknown $options', at, 'The only option is "i".');
            end if;
            v_name := case when options = '"i"' then 'iregex' else 'regex' end;
            perform pgq._filter_check_pattern(v_name, operand, at);
            tree := pgq._filter_node(v_name, scope, path, operand);
        when '$exists', '$isNull' then
            if v_type <> 'boolean' then
                perform pgq._filter_error(operator || ' takes true or false', at,
                    format('Write {"%s": true} or {"%s": false}.', operator, operator));
            end if;
            tree := pgq._filter_node(
                case when operator = '$exists' and scope <> 'msg' then 'exists' else 'some' end,
                scope, path);
            if (operator = '$exists') <> operand::boolean then
                tree := pgq._filter_negate(tree);
            end if;
        when '$type' then
            if operand not in ('"string"', '"number"', '"boolean"', '"null"', '"array"',
                    '"object"') then
                perform pgq._filter_error('unknown type', at,
                    'The types are string, number, boolean, null, array and object.');
            end if;
            tree := pgq._filter_node('type', scope, path, operand);
        when '$all' then
            perform pgq._filter_check_list(operand, false, at);
            perform pgq._filter_check_structure(operand, at);
            tree := pgq._filter_node('all', scope, path, operand);
        when '$size' then
            if v_type <> 'number' or operand::numeric < 0
                    or operand::numeric <> trunc(operand::numeric) then
                perform pgq._filter_error('$size takes a whole number', at,
                    'Write {"$size": 2} for an array of two elements.');
            end if;
            tree := pgq._filter_node('size', scope, path, operand);
        when '$contains' then
            perform pgq._filter_check_structure(operand, at);
            if v_type = 'null' then
                perform pgq._filter_error('$contains cannot look for null', at,
                    'Write {"key": null} or {"key": {"$isNull": true}}.');
            end if;
            tree := pgq._filter_node('contains', scope, path, operand);
        when '$mod' then
            if v_type <> 'array' or jsonb_array_length(operand) <> 2
                    or not jsonb_path_match(operand,
                        'strict $[0].type() == "number" && $[1].type() == "number"')
                    or (operand -> 0)::numeric = 0
                    or (operand -> 0)::numeric <> trunc((operand -> 0)::numeric)
                    or (operand -> 1)::numeric <> trunc((operand -> 1)::numeric) then
                perform pgq._filter_error('$mod takes a divisor and a remainder', at,
                    'Write {"$mod": [10, 3]}: two whole numbers, the first not 0.');
            end if;
            tree := pgq._filter_node('mod', scope, path, operand);
        when '$elemMatch' then
            if v_type <> 'object' then
                perform pgq._filter_error('$elemMatch takes an object', at,
                    'Write {"$elemMatch": {"$gt": 5}} or {"$elemMatch": {"sku": "a", "qty": 1}}.');
            end if;
            select t.tree, t.nodes + 1 into tree, nodes
            from pgq._filter_parse_test(operand, 'item', '{}', at, depth + 1) as t;
            tree := pgq._filter_node('elem', scope, path, tree);
        when '$options' then
            perform pgq._filter_error('$options belongs to $regex', at,
                'Write {"$regex": "^order", "$options": "i"}.');
        when '$now' then
            perform pgq._filter_error('$now is an operand', at,
                'Write {"msg.published_at": {"$gt": {"$now": "-1 hour"}}}.');
        when '$and', '$or', '$nor', '$not', '$const' then
            perform pgq._filter_error(operator || ' cannot stand beside operators', at,
                'Put it outside the field: {"$not": {"key": {"$gt": 5}}}.');
        else
            perform pgq._filter_error('unknown operator ' || left(operator, 64), at,
                'The operators are $eq $ne $in $nin $gt $gte $lt $lte $between $like $nlike $ilike '
                '$prefix $suffix $substr $ieq $wildcard $regex $topic $exists $isNull $type $all '
                '$size $elemMatch $contains $mod.');
    end case;
end
$$;
comment on function pgq._filter_parse_operator(text, jsonb, jsonb, text, text[], text, int) is
    'Validates one operator of a filter and gives its tree.';
revoke all on function
    pgq._filter_parse_operator(text, jsonb, jsonb, text, text[], text, int) from public;

-- sql/20_filter/34_filter_parse_alternative.sql

-- One operator object of an any-of list, as SNS and EventBridge spell it -> tree.
create function pgq._filter_parse_alternative(
    alternative jsonb, scope text, path text[], at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Inside a list stand values and prefix, suffix, equals-ignore-case, '
        'wildcard, exists, numeric and anything-but, one per object.';
    v_name text;
    v_operand jsonb;
    v_at text;
    v_parts jsonb[] := '{}';
    v_part jsonb;
    v_bounds jsonb := '{}';
    v_bound text;
begin
    if jsonb_typeof(alternative) <> 'object' then
        perform pgq._filter_error('a list cannot hold a list', at,
            'Compare with a whole array by {"$eq": [...]}.');
    elsif (select count(*) from jsonb_object_keys(alternative)) <> 1 then
        perform pgq._filter_error('an object in a list must hold one operator', at, v_hint);
    end if;
    select o.key, o.value into v_name, v_operand from jsonb_each(alternative) as o;
    v_at := at || '.' || left(v_name, 64);
    if v_name in ('prefix', 'suffix') and jsonb_typeof(v_operand) = 'object' then
        if v_operand - 'equals-ignore-case' <> '{}'
                or jsonb_typeof(v_operand -> 'equals-ignore-case') is distinct from 'string' then
            perform pgq._filter_error('the operand must be a string', v_at, v_hint);
        end if;
        v_operand := to_jsonb(
            case v_name when 'suffix' then '%' else '' end
            || regexp_replace(v_operand ->> 'equals-ignore-case', E'([\\\\%_])', E'\\\\\\1', 'g')
            || case v_name when 'prefix' then '%' else '' end);
        v_name := 'ilike';
    elsif v_name = 'equals-ignore-case' then
        v_name := 'ieq';
    end if;
    case v_name
        when 'prefix', 'suffix', 'ieq', 'ilike', 'wildcard', 'exists' then
            return (pgq._filter_parse_operator('$' || v_name, v_operand, null, scope, path, v_at,
                1)).tree;
        when 'numeric' then
            if jsonb_typeof(v_operand) <> 'array'
                    or jsonb_array_length(v_operand) not in (2, 4)
                    or jsonb_path_exists(v_operand, 'strict $[1, 3] ? (@.type() != "number")',
                        silent => true)
                    or jsonb_typeof(v_operand -> 1) <> 'number' then
                perform pgq._filter_error('numeric takes comparisons with numbers', v_at,
                    'Write ["=", 5], [">", 0] or [">", 0, "<=", 150].');
            end if;
            if v_operand -> 0 = '"="' and jsonb_array_length(v_operand) = 2 then
                return (pgq._filter_parse_operator('$eq', v_operand -> 1, null, scope, path, v_at,
                    1)).tree;
            end if;
            for i in 0 .. jsonb_array_length(v_operand) - 1 by 2 loop
                v_bound := case v_operand ->> i when '>' then 'gt' when '>=' then 'gte'
                    when '<' then 'lt' when '<=' then 'lte' end;
                v_bounds := v_bounds
                    || jsonb_build_object(coalesce(v_bound, '?'), v_operand -> (i + 1));
            end loop;
            if v_bounds ? '?' or (v_bounds ?| '{gt,gte}')::int + (v_bounds ?| '{lt,lte}')::int
                    <> jsonb_array_length(v_operand) / 2 then
                perform pgq._filter_error('numeric takes one comparison for each end', v_at,
                    'Write ["=", 5], [">", 0] or [">", 0, "<=", 150].');
            end if;
            return pgq._filter_range(scope, path, v_bounds, v_at);
        when 'anything-but' then
            if jsonb_typeof(v_operand) <> 'object' then
                return (pgq._filter_parse_operator('$nin', case jsonb_typeof(v_operand)
                    when 'array' then v_operand else jsonb_build_array(v_operand) end,
                    null, scope, path, v_at, 1)).tree;
            elsif (select count(*) from jsonb_object_keys(v_operand)) <> 1
                    or not v_operand ?| '{prefix,suffix,equals-ignore-case,wildcard}' then
                perform pgq._filter_error('anything-but takes values or one text operator', v_at,
                    'Write {"anything-but": ["a", "b"]} or {"anything-but": {"prefix": "a"}}; '
                    'prefix, suffix, equals-ignore-case and wildcard may stand inside.');
            end if;
            select o.key, o.value into v_name, v_operand from jsonb_each(v_operand) as o;
            if jsonb_typeof(v_operand) <> 'array' then
                v_operand := jsonb_build_array(v_operand);
            end if;
            perform pgq._filter_check_list(v_operand, true, v_at);
            for v_part in select jsonb_array_elements(v_operand) loop
                v_parts := v_parts || pgq._filter_parse_alternative(
                    jsonb_build_object(v_name, v_part), scope, path, v_at);
            end loop;
            return pgq._filter_unless(scope, path, pgq._filter_combine('or', v_parts));
        else
            perform pgq._filter_error('unknown operator ' || left(v_name, 64) || ' in a list', v_at,
                v_hint || case v_name when 'cidr' then
                    ' Address ranges are not supported: use prefix, or $regex.' else '' end);
    end case;
    return null;  -- not reached
end
$$;
comment on function pgq._filter_parse_alternative(jsonb, text, text[], text) is
    'Validates an SNS or EventBridge operator and gives its tree.';
revoke all on function pgq._filter_parse_alternative(jsonb, text, text[], text) from public;

-- sql/20_filter/35_filter_parse_test.sql

-- What is asked of one field: a value, a list of alternatives, operators, or fields below it.
create function pgq._filter_parse_test(
    test jsonb, scope text, path text[], at text, depth int, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_logic constant text[] := '{$and,$or,$nor,$not,$const,$path}';
    v_parts jsonb[] := '{}';
    v_scalars jsonb;
    v_key text;
    v_value jsonb;
    v_index int := 0;
    v_part record;
begin
    nodes := 1;
    if depth > 8 then
        perform pgq._filter_error('the filter is nested too deeply', at,
            'A filter is nested at most 8 levels deep.');
    end if;
    if jsonb_typeof(test) = 'array' then
        perform pgq._filter_check_list(test, false, at);
        v_scalars := jsonb_path_query_array(test,
            'strict $[*] ? (@.type() != "array" && @.type() != "object")');
        if v_scalars <> '[]' then
            v_parts := v_parts || pgq._filter_membership(scope, path, v_scalars, at);
        end if;
        for v_value in select jsonb_array_elements(test) loop
            if jsonb_typeof(v_value) in ('array', 'object') then
                v_parts := v_parts || pgq._filter_parse_alternative(v_value, scope, path,
                    format('%s[%s]', at, v_index));
            end if;
            v_index := v_index + 1;
        end loop;
        nodes := cardinality(v_parts);
        tree := pgq._filter_combine('or', v_parts);
    elsif jsonb_typeof(test) <> 'object' then
        tree := pgq._filter_membership(scope, path, jsonb_build_array(test), at);
    elsif test = '{}' then
        perform pgq._filter_error('the test is empty', at,
            'Write {"$exists": true} for a field that is there, {"$eq": {}} for an empty object.');
    elsif exists (select from jsonb_object_keys(test) as k (key)
            where k.key like '$%' and k.key <> all (v_logic)) and not test ? '$path' then
        nodes := 0;
        for v_key, v_value in select o.key, o.value from jsonb_each(test) as o loop
            if v_key not like '$%' then
                perform pgq._filter_error('operators and fields cannot be mixed', at,
                    'Give the field ' || left(to_json(v_key)::text, 64)
                    || ' a test of its own, beside this one.');
            elsif v_key <> '$options' or not test ? '$regex' then
                select p.tree, p.nodes into v_part
                from pgq._filter_parse_operator(v_key, v_value, test -> '$options', scope, path,
                    at || '.' || left(v_key, 64), depth) as p;
                v_parts := v_parts || v_part.tree;
                nodes := nodes + v_part.nodes;
            end if;
        end loop;
        tree := pgq._filter_combine('and', v_parts);
    elsif scope = 'msg' then
        perform pgq._filter_error('the fields of msg have no parts', at,
            'Test the field itself: {"msg.priority": {"$gt": 5}}');
    else
        select b.tree, b.nodes into tree, nodes
        from pgq._filter_parse_block(test, scope, path, at,
            depth + case when path = '{}' then 0 else 1 end) as b;
    end if;
end
$$;
comment on function pgq._filter_parse_test(jsonb, text, text[], text, int) is
    'Validates the test of one field and gives its tree.';
revoke all on function pgq._filter_parse_test(jsonb, text, text[], text, int) from public;

-- sql/20_filter/36_filter_parse_block.sql

-- A filter, a scope block or the fields below a field -> tree; scope is NULL where names are whole.
create function pgq._filter_parse_block(
    block jsonb, scope text, prefix text[], at text, depth int, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_children jsonb[];
    v_key text;
    v_value jsonb;
    v_child jsonb;
    v_at text;
    v_path text[];
    v_part record;
begin
    tree := 'true';
    nodes := 0;
    if block is null or block = 'null' then
        return;
    elsif jsonb_typeof(block) <> 'object' then
        perform pgq._filter_error('a filter must be an object', at,
            'Write {"key": "value"}, or {} for everything.');
    elsif depth > 8 then
        perform pgq._filter_error('the filter is nested too deeply', at,
            'A filter is nested at most 8 levels deep.');
    elsif block ? '$path' then
        v_path := pgq._filter_parse_path(block -> '$path', scope, prefix, at || '.$path');
        if block - '$path' = '{}' or exists (
                select from jsonb_object_keys(block - '$path') as k (key)
                where k.key not like '$%' or k.key in ('$and', '$or', '$nor', '$not', '$const'))
        then
            perform pgq._filter_error('$path stands with operators only', at,
                'Write {"$path": ["payload", "a.b"], "$eq": 1}; join several with $and.');
        end if;
        select t.tree, t.nodes into tree, nodes
        from pgq._filter_parse_test(block - '$path', v_path[1], v_path[2:], at, depth) as t;
        return;
    end if;
    for v_key, v_value in select o.key, o.value from jsonb_each(block) as o loop
        v_at := at || '.' || left(v_key, 64);
        if v_key in ('$and', '$or', '$nor') then
            perform pgq._filter_check_list(v_value, false, v_at);
            nodes := nodes + 1;
            v_children := '{}';
            for v_child in select jsonb_array_elements(v_value) loop
                select b.tree, b.nodes into v_part
                from pgq._filter_parse_block(v_child, scope, prefix,
                    format('%s[%s]', v_at, cardinality(v_children)), depth + 1) as b;
                v_children := v_children || v_part.tree;
                nodes := nodes + v_part.nodes;
            end loop;
            v_child := pgq._filter_combine(
                case v_key when '$and' then 'and' else 'or' end, v_children);
            v_parts := v_parts
                || case v_key when '$nor' then pgq._filter_negate(v_child) else v_child end;
        elsif v_key = '$not' then
            select b.tree, b.nodes into v_part
            from pgq._filter_parse_block(v_value, scope, prefix, v_at, depth + 1) as b;
            v_parts := v_parts || pgq._filter_negate(v_part.tree);
            nodes := nodes + v_part.nodes + 1;
        elsif v_key = '$const' then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform pgq._filter_error('$const takes true or false', v_at,
                    'Write {"$const": true} or {"$const": false}.');
            end if;
            v_parts := v_parts || v_value;
            nodes := nodes + 1;
        elsif v_key like '$%' then
            perform pgq._filter_error(
                'operator ' || left(v_key, 64) || ' does not belong to a field', v_at,
                'Write {"key": {"$gt": 5}}; to negate it, {"$not": {"key": {"$gt": 5}}}. '
                'Between fields stand $and, $or, $nor, $not and $const.');
        elsif scope is null and v_key in ('headers', 'payload', 'msg') then
            if jsonb_typeof(v_value) <> 'object' then
                perform pgq._filter_error(v_key || ' must hold fields', v_at, format(
                    'Write {"%s": {"key": "value"}}; a header of this name is "headers.%s".',
                    v_key, v_key));
            end if;
            select b.tree, b.nodes into v_part
            from pgq._filter_parse_block(v_value, v_key, '{}', v_at, depth + 1) as b;
            v_parts := v_parts || v_part.tree;
            nodes := nodes + v_part.nodes;
        else
            v_path := pgq._filter_parse_name(v_key, scope, prefix, v_at);
            select t.tree, t.nodes into v_part
            from pgq._filter_parse_test(v_value, v_path[1], v_path[2:], v_at, depth) as t;
            v_parts := v_parts || v_part.tree;
            nodes := nodes + v_part.nodes;
        end if;
    end loop;
    tree := pgq._filter_combine('and', v_parts);
end
$$;
comment on function pgq._filter_parse_block(jsonb, text, text[], text, int) is
    'Validates a block of fields and logic and gives its tree.';
revoke all on function pgq._filter_parse_block(jsonb, text, text[], text, int) from public;

-- sql/20_filter/37_filter_parse.sql

-- Filter document -> syntax tree, or QU004 before anything else happens.
-- A tree is true, false, {"op": "and" | "or", "of": [tree, ...]}, {"op": "not", "of": tree},
-- or a leaf {"op", "in": "headers" | "payload" | "msg" | "item", "path": [key, ...], "value"}.
create function pgq._filter_parse(filter jsonb)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tree jsonb;
    v_nodes int;
begin
    if octet_length(filter::text) > 65536 then
        perform pgq._filter_error('the document is too large', '$',
            'A filter has at most 64 kB.');
    end if;
    select b.tree, b.nodes into v_tree, v_nodes
    from pgq._filter_parse_block(filter, null, '{}', '$', 1) as b;
    if v_nodes > 256 then
        perform pgq._filter_error('the filter has too many nodes', '$',
            'A filter has at most 256 tests and logical operators; put values into one $in.');
    end if;
    return v_tree;
end
$$;
comment on function pgq._filter_parse(jsonb) is
    'Validates a filter document and gives its syntax tree; NULL and {} give true.';
revoke all on function pgq._filter_parse(jsonb) from public;

-- sql/20_filter/40_filter_scope.sql

-- Which part of a message a tree looks at: headers, payload, content for both, or message if the
-- message's own fields are needed too: those cost the most to prepare.
create function pgq._filter_scope(tree jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope text;
    v_child text;
    v_tree jsonb;
begin
    if tree ? 'in' then
        return case tree ->> 'in' when 'msg' then 'message' else tree ->> 'in' end;
    elsif tree ->> 'op' = 'not' then
        return pgq._filter_scope(tree -> 'of');
    elsif jsonb_typeof(tree) = 'boolean' then
        return 'headers';
    end if;
    for v_tree in select jsonb_array_elements(tree -> 'of') loop
        v_child := pgq._filter_scope(v_tree);
        if v_child = 'message' then
            return 'message';
        end if;
        v_scope := case when v_child <> v_scope then 'content' else v_child end;
    end loop;
    return v_scope;
end
$$;
comment on function pgq._filter_scope(jsonb) is
    'The part of a message that a syntax tree looks at: headers, payload, content, message.';
revoke all on function pgq._filter_scope(jsonb) from public;

-- sql/20_filter/41_filter_join.sql

-- Conditions joined by && or ||, in groups, so that a long list does not become a deep tree.
create function pgq._filter_join(operator text, conditions text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_conditions text[] := conditions;
begin
    while cardinality(v_conditions) > 16 loop
        select array_agg(g.condition order by g.number)
        into v_conditions
        from (select (c.position - 1) / 16,
                '(' || string_agg(c.condition, ' ' || operator || ' ' order by c.position) || ')'
            from unnest(v_conditions) with ordinality as c (condition, position)
            group by 1) as g (number, condition);
    end loop;
    return case when cardinality(v_conditions) = 1 then v_conditions[1]
        else '(' || array_to_string(v_conditions, ' ' || operator || ' ') || ')' end;
end
$$;
comment on function pgq._filter_join(text, text[]) is
    'Joins jsonpath conditions by && or ||.';
revoke all on function pgq._filter_join(text, text[]) from public;

-- sql/20_filter/42_filter_equal.sql

-- The item equals this JSON value. Each type is checked before its parts, because lax mode would
-- otherwise look into arrays; .type() and .size() never do.
create function pgq._filter_equal(item text, value jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_conditions text[] := array[format('%s.type() == "%s"', item, jsonb_typeof(value))];
    v_others text;
begin
    case jsonb_typeof(value)
        when 'null' then
            null;
        when 'array' then
            v_conditions := v_conditions
                || format('%s.size() == %s', item, jsonb_array_length(value))
                || array(select pgq._filter_equal(format('%s[%s]', item, e.position - 1), e.value)
                    from jsonb_array_elements(value) with ordinality as e (value, position));
        when 'object' then
            select format('!(exists(%s.keyvalue()%s))', item,
                ' ? (' || pgq._filter_join('&&',
                    array_agg('@."key" != ' || to_json(m.key)::text)) || ')')
            into v_others
            from jsonb_each(value) as m;
            v_conditions := v_conditions
                || array(select pgq._filter_equal(item || '.' || to_json(m.key)::text, m.value)
                    from jsonb_each(value) as m)
                || v_others;
        else
            v_conditions := v_conditions || format('%s == %s', item, value);
    end case;
    return pgq._filter_join('&&', v_conditions);
end
$$;
comment on function pgq._filter_equal(text, jsonb) is
    'The jsonpath condition of an item being equal to a JSON value.';
revoke all on function pgq._filter_equal(text, jsonb) from public;

-- sql/20_filter/43_filter_contain.sql

-- The item contains this JSON value as @> means it, below the top.
create function pgq._filter_contain(item text, value jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_condition text := format('%s.type() == "%s"', item, jsonb_typeof(value));
begin
    return case jsonb_typeof(value)
        when 'object' then pgq._filter_join('&&', v_condition
            || array(select pgq._filter_contain(item || '.' || to_json(m.key)::text, m.value)
                from jsonb_each(value) as m))
        -- a filter on an array looks at its elements, and no deeper
        when 'array' then pgq._filter_join('&&', v_condition
            || array(select format('exists(%s ? (%s))', item, pgq._filter_contain('@', e.value))
                from jsonb_array_elements(value) with ordinality as e (value, position)
                order by e.position))
        else pgq._filter_equal(item, value) end;
end
$$;
comment on function pgq._filter_contain(text, jsonb) is
    'The jsonpath condition of an item containing a JSON value.';
revoke all on function pgq._filter_contain(text, jsonb) from public;

-- sql/20_filter/44_filter_search.sql

-- The current item (@) is one of these literals, sorted as jsonpath sorts: a binary search.
create function pgq._filter_search(literals text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_middle int := cardinality(literals) / 2;
begin
    if cardinality(literals) <= 4 then
        return '(@ == ' || array_to_string(literals, ' || @ == ') || ')';
    end if;
    return format('((@ < %s && %s) || (@ >= %s && %s))',
        literals[v_middle + 1], pgq._filter_search(literals[:v_middle]),
        literals[v_middle + 1], pgq._filter_search(literals[v_middle + 1:]));
end
$$;
comment on function pgq._filter_search(text[]) is
    'The jsonpath condition of an item being one of many sorted literals.';
revoke all on function pgq._filter_search(text[]) from public;

-- sql/20_filter/45_filter_among.sql

-- The current item (@) is one of these scalars.
create function pgq._filter_among("values" jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- text is ordered by its UTF-8 bytes, as in jsonpath, whatever the database's encoding
    return (
        select pgq._filter_join('||', array_agg(g.condition order by g.type))
        from (
            select jsonb_typeof(v.value),
                format('(@.type() == "%s" && %s)', jsonb_typeof(v.value),
                    pgq._filter_search(array_agg(v.value::text order by
                        case jsonb_typeof(v.value) when 'number' then v.value::numeric end,
                        convert_to(v.value #>> '{}', 'UTF8'))))
            from jsonb_array_elements(_filter_among."values") as v (value)
            group by 1
        ) as g (type, condition));
end
$$;
comment on function pgq._filter_among(jsonb) is
    'The jsonpath condition of an item being one of several scalars.';
revoke all on function pgq._filter_among(jsonb) from public;

-- sql/20_filter/46_filter_text.sql

-- What follows the item in a text predicate: the cheapest form that means the same.
create function pgq._filter_text(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when operator = 'prefix' then ' starts with ' || to_json(pattern)::text
        when operator = 'substr' and pattern = '' then ' starts with ""'
        when operator = 'substr' then format(' like_regex %s flag "q"', to_json(pattern))
        when operator = 'like' and pattern ~ E'^[^\\\\%_]*$' then ' == ' || to_json(pattern)::text
        when operator = 'like' and pattern ~ E'^[^\\\\%_]*%+$'
            then ' starts with ' || to_json(rtrim(pattern, '%'))::text
        when operator = 'wildcard' and pattern ~ E'^[^\\\\*]*\\*+$'
            then ' starts with ' || to_json(rtrim(pattern, '*'))::text
        -- flag s: a dot matches a newline too, as everywhere else in PostgreSQL
        else format(' like_regex %s flag "%s"', to_json(pgq._filter_pattern(operator, pattern)),
            case when operator in ('ieq', 'ilike', 'iregex') then 'is' else 's' end)
        end;
end
$$;
comment on function pgq._filter_text(text, text) is
    'The jsonpath predicate of a text operator, without the item in front.';
revoke all on function pgq._filter_text(text, text) from public;

-- sql/20_filter/47_filter_literal.sql

-- A bound of an order test: a literal, or seconds from now.
create function pgq._filter_literal(value jsonb)
returns text
language sql immutable strict parallel safe
return case pg_catalog.jsonb_typeof(value)
    when 'object' then '$"now" + (' || (value operator(pg_catalog.->>) 'now') || ')'
    else value::text end;
comment on function pgq._filter_literal(jsonb) is 'The jsonpath literal of a bound.';
revoke all on function pgq._filter_literal(jsonb) from public;

-- sql/20_filter/48_filter_item.sql

-- The condition of a leaf on one item. In strict mode a wrong type is unknown, which the caller
-- turns into false; in lax mode the type is checked first, or arrays would be looked into.
create function pgq._filter_item(
    operator text, value jsonb, item text, strict_mode boolean)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type text := 'string';
    v_condition text;
begin
    case operator
        when 'exists' then
            return format('exists(%s)', item);
        when 'some' then
            return item || case when strict_mode then ' != null' else '.type() != "null"' end;
        when 'type' then
            return format('%s.type() == %s', item, value);
        when 'eq' then
            return case when strict_mode then format('%s == %s', item, value)
                else pgq._filter_equal(item, value) end;
        when 'in' then
            if strict_mode and jsonb_array_length(value) <= 3 then
                return '(' || (select string_agg(format('%s == %s', item, v.value), ' || ')
                    from jsonb_array_elements(value) as v (value)) || ')';
            end if;
            return format(case when strict_mode then 'exists(%s ? (%s))'
                else '(%1$s.type() != "array" && exists(%1$s ? (%2$s)))' end,
                item, pgq._filter_among(value));
        when 'all' then
            return pgq._filter_join('&&', format('%s.type() == "array"', item)
                || array(select format('exists(%s ? (%s))', item, pgq._filter_equal('@', e.value))
                    from jsonb_array_elements(value) as e (value)));
        when 'size' then
            return format('(%1$s.type() == "array" && %1$s.size() == %2$s)', item, value);
        when 'elem' then
            return format('(%1$s.type() == "array" && exists(%1$s ? (%2$s)))', item,
                pgq._filter_condition(value, 'item', false));
        when 'contains' then
            -- the one exception of @>: an array contains a scalar that is one of its elements
            v_condition := pgq._filter_contain(item, value);
            return case when jsonb_typeof(value) in ('array', 'object') then v_condition
                else format('(%1$s || (%2$s.type() == "array" && exists(%2$s ? (%3$s))))',
                    v_condition, item, pgq._filter_contain('@', value)) end;
        when 'range' then
            select string_agg(item || case b.key when 'gt' then ' > ' when 'gte' then ' >= '
                    when 'lt' then ' < ' else ' <= ' end || pgq._filter_literal(b.value), ' && '),
                min(case jsonb_typeof(b.value) when 'string' then 'string' else 'number' end)
            into v_condition, v_type
            from jsonb_each(value) as b;
        when 'mod' then
            v_type := 'number';
            v_condition := format('%s %% %s == %s', item, value -> 0, value -> 1);
        else
            v_condition := item || pgq._filter_text(operator, value #>> '{}');
    end case;
    return format(case when strict_mode then '(%3$s)'
        else '(%1$s.type() == "%2$s" && %3$s)' end, item, v_type, v_condition);
end
$$;
comment on function pgq._filter_item(text, jsonb, text, boolean) is
    'The jsonpath condition of one test on one item.';
revoke all on function pgq._filter_item(text, jsonb, text, boolean) from public;

-- sql/20_filter/49_filter_leaf.sql

-- The condition of a leaf: which items its path means, and how the test is asked of them.
-- root is the part of the message that $ stands for, or item for @.
create function pgq._filter_leaf(leaf jsonb, root text, strict_mode boolean)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operator constant text := leaf ->> 'op';
    v_value constant jsonb := leaf -> 'value';
    v_scope constant text := leaf ->> 'in';
    v_path text := case
        when root = 'item' then '@'
        when root = 'message' then format('$."%s"', v_scope)
        when root = 'content' and v_scope = 'headers' then '$"headers"'
        else '$' end;
    v_conditions text[] := '{}';
    v_parent text;
    v_key text;
begin
    for v_key in select jsonb_array_elements_text(leaf -> 'path') loop
        v_parent := v_path;
        v_path := v_path || '.' || to_json(v_key)::text;
        v_conditions := v_conditions || format('%s.type() == "object"', v_parent);
    end loop;
    if v_parent is null then
        return pgq._filter_item(v_operator, v_value, v_path, strict_mode);
    elsif v_scope in ('headers', 'msg') then
        -- the root is an object; in lax mode a step into an array would look at its elements
        v_conditions := case when strict_mode then '{}' else v_conditions[2:] end
            || pgq._filter_item(v_operator, v_value, v_path, strict_mode);
        return pgq._filter_join('&&', v_conditions);
    end if;
    -- payload: any element will do; a bare comparison looks into an array, one level deep, but
    -- may be unknown, which no complement inside an item could settle
    case
        when root <> 'item' and v_operator = 'eq'
                and jsonb_typeof(v_value) not in ('array', 'object') then
            return format('%s == %s', v_path, v_value);
        when root <> 'item' and v_operator in ('like', 'ilike', 'prefix', 'suffix', 'substr',
                'ieq', 'wildcard', 'topic', 'regex', 'iregex') then
            return v_path || pgq._filter_text(v_operator, v_value #>> '{}');
        when v_operator in ('exists', 'some', 'type') then
            return pgq._filter_item(v_operator, v_value, v_path, false);
        when v_operator in ('all', 'size', 'elem') or (v_operator in ('eq', 'contains')
                and jsonb_typeof(v_value) = 'array') then
            return format('exists(%s ? (@.type() == "object" && %s))', v_parent, pgq._filter_item(
                v_operator, v_value, '@.' || to_json(v_key)::text, false));
        when v_operator = 'in' then
            return format('exists(%s ? (%s))', v_path, pgq._filter_among(v_value));
        when v_operator = 'contains' then
            return format('exists(%s ? (%s))', v_path, pgq._filter_contain('@', v_value));
        else
            return format('exists(%s ? (%s))', v_path,
                pgq._filter_item(v_operator, v_value, '@', false));
    end case;
end
$$;
comment on function pgq._filter_leaf(jsonb, text, boolean) is
    'The jsonpath condition of a leaf of the syntax tree.';
revoke all on function pgq._filter_leaf(jsonb, text, boolean) from public;

-- sql/20_filter/50_filter_condition.sql

-- The condition of a tree. Unknown counts as false: and / or keep that, only a complement must
-- settle it first, which is what exists(true ? (...)) does. That would hide the item that @ means,
-- so conditions on an item are written to be never unknown.
create function pgq._filter_condition(tree jsonb, root text, strict_mode boolean)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        -- a constant that jsonpath accepts where a condition must stand
        when tree = 'true' then '(1 == 1)'
        when tree = 'false' then '(1 == 0)'
        when tree ->> 'op' = 'not' then format(
            case root when 'item' then '!(%s)' else '!(exists(true ? (%s)))' end,
            pgq._filter_condition(tree -> 'of', root, strict_mode))
        when tree ? 'of' then pgq._filter_join(
            case tree ->> 'op' when 'and' then '&&' else '||' end,
            array(select pgq._filter_condition(t.tree, root, strict_mode)
                from jsonb_array_elements(tree -> 'of') with ordinality as t (tree, position)
                order by t.position))
        else pgq._filter_leaf(tree, root, strict_mode) end;
end
$$;
comment on function pgq._filter_condition(jsonb, text, boolean) is
    'The jsonpath condition of a syntax tree.';
revoke all on function pgq._filter_condition(jsonb, text, boolean) from public;

-- sql/20_filter/51_filter_plain.sql

-- Can the tree run in strict mode? Yes if no test looks inside an array or object.
create function pgq._filter_plain(tree jsonb)
returns boolean
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then pgq._filter_plain(tree -> 'of')
        when tree ? 'of' then (select bool_and(pgq._filter_plain(t.tree))
            from jsonb_array_elements(tree -> 'of') as t (tree))
        when tree ->> 'op' = 'eq' then jsonb_typeof(tree -> 'value') not in ('array', 'object')
        else coalesce(tree ->> 'op' not in ('all', 'size', 'elem', 'contains'), true) end;
end
$$;
comment on function pgq._filter_plain(jsonb) is
    'Whether every test of a syntax tree is about scalars.';
revoke all on function pgq._filter_plain(jsonb) from public;

-- sql/20_filter/52_filter_path.sql

-- Syntax tree -> jsonpath that is true or false on any message: run it with
-- jsonb_path_match(target, path, vars, silent => true). $ is the headers, the payload or the whole
-- document, as pgq._filter_scope says; for content it is the payload, and $headers a variable, so
-- that a large payload is not copied.
-- Headers run in strict mode, which is twice as fast: nothing has to be kept from looking into
-- arrays. The payload needs lax mode, which does look into them.
create function pgq._filter_path(tree jsonb)
returns jsonpath
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope constant text := pgq._filter_scope(tree);
    v_strict boolean;
begin
    if jsonb_typeof(tree) = 'boolean' then
        return tree::text::jsonpath;
    end if;
    v_strict := v_scope = 'headers' and pgq._filter_plain(tree);
    return (case when v_strict then 'strict ' else '' end || 'exists(true ? ('
        || pgq._filter_condition(tree, v_scope, v_strict) || '))')::jsonpath;
end
$$;
comment on function pgq._filter_path(jsonb) is
    'Compiles a syntax tree to a two-valued jsonpath.';
revoke all on function pgq._filter_path(jsonb) from public;

-- sql/20_filter/53_filter_operands.sql

-- The values that a tree compares with, in order; a list counts value by value.
create function pgq._filter_operands(tree jsonb)
returns jsonb
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then pgq._filter_operands(tree -> 'of')
        when tree ? 'of' then (
            select coalesce(jsonb_agg(v.value order by t.position, v.position), '[]')
            from jsonb_array_elements(tree -> 'of') with ordinality as t (tree, position),
                jsonb_array_elements(pgq._filter_operands(t.tree))
                    with ordinality as v (value, position))
        when tree ->> 'op' in ('in', 'all', 'mod') then tree -> 'value'
        when tree ->> 'op' = 'range' then jsonb_path_query_array(tree, 'strict $."value".*')
        when tree ->> 'op' = 'elem' then pgq._filter_operands(tree -> 'value')
        when tree ? 'value' then jsonb_build_array(tree -> 'value')
        else '[]' end;
end
$$;
comment on function pgq._filter_operands(jsonb) is
    'The operands of a syntax tree, as one list.';
revoke all on function pgq._filter_operands(jsonb) from public;

-- sql/20_filter/60_filter_weaken.sql

-- The weaker filter that looks at these header keys only: what fails it cannot match the tree.
-- final says that nothing was given up, so that whatever passes it does match.
create function pgq._filter_weaken(
    inout tree jsonb, keys text[], negated boolean default false, out final boolean)
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operator constant text := tree ->> 'op';
    v_parts jsonb[] := '{}';
    v_child jsonb;
    v_part record;
begin
    final := true;
    if jsonb_typeof(tree) = 'boolean' then
        tree := case when negated then pgq._filter_negate(tree) else tree end;
    elsif v_operator = 'not' then
        select w.tree, w.final into tree, final
        from pgq._filter_weaken(tree -> 'of', keys, not negated) as w;
    elsif v_operator in ('and', 'or') then
        for v_child in select jsonb_array_elements(tree -> 'of') loop
            select w.tree, w.final into v_part
            from pgq._filter_weaken(v_child, keys, negated) as w;
            v_parts := v_parts || v_part.tree;
            final := final and v_part.final;
        end loop;
        tree := pgq._filter_combine(
            case when negated = (v_operator = 'and') then 'or' else 'and' end, v_parts);
    elsif tree ->> 'in' = 'headers' and tree -> 'path' ->> 0 = any (keys) then
        tree := case when negated then pgq._filter_negate(tree) else tree end;
    else
        tree := 'true';
        final := false;
    end if;
end
$$;
comment on function pgq._filter_weaken(jsonb, text[], boolean) is
    'Weakens a syntax tree to a test of the given header keys; final if nothing was given up.';
revoke all on function pgq._filter_weaken(jsonb, text[], boolean) from public;

-- sql/20_filter/61_message_document.sql

-- The document that a filter of scope message looks at; timestamps are epoch seconds in it.
create function pgq._message_document(
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
revoke all on function pgq._message_document(jsonb, jsonb, text, int, text, text, text, text, text,
    int, timestamptz, timestamptz, bigint) from public;

-- sql/20_filter/62_test_filter.sql

-- Does a message pass a compiled filter? An expression that the planner inlines; the document is
-- built, and the payload read, only for a filter that looks at them. No path: everything passes.
create function pgq._test_filter(
    path jsonpath, scope text, headers jsonb, payload jsonb, topic text, priority int, sender text,
    recipient text, reply_to text, correlation_id text, group_key text, attempt int,
    published_at timestamptz, expires_at timestamptz, id bigint, now timestamptz)
returns boolean
language sql stable parallel safe
return path is null or pg_catalog.jsonb_path_match(
    case scope
        when 'headers' then coalesce(headers, '{}')
        when 'payload' then coalesce(payload, 'null')
        when 'content' then coalesce(payload, 'null')
        else pgq._message_document(headers, payload, topic, priority, sender, recipient, reply_to,
            correlation_id, group_key, attempt, published_at, expires_at, id) end,
    path,
    case scope
        when 'headers' then '{}'
        when 'payload' then '{}'
        when 'content' then pg_catalog.jsonb_build_object('headers', headers)
        else pg_catalog.jsonb_build_object('now', extract(epoch from now)) end,
    true);
comment on function pgq._test_filter(jsonpath, text, jsonb, jsonb, text, int, text, text, text,
    text, text, int, timestamptz, timestamptz, bigint, timestamptz) is
    'Whether a message passes a compiled filter.';
revoke all on function pgq._test_filter(jsonpath, text, jsonb, jsonb, text, int, text, text, text,
    text, text, int, timestamptz, timestamptz, bigint, timestamptz) from public;

-- sql/20_filter/70_matches.sql

-- Does a message match a filter? For tests, triggers and people: it compiles on every call.
create function pgq.matches(
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
    return pgq._test_filter(pgq._filter_path(v_tree), pgq._filter_scope(v_tree), headers, payload,
        topic, priority, sender, recipient, reply_to, correlation_id, group_key, attempt,
        coalesce(published_at, now()), expires_at, id, now());
end
$$;
comment on function pgq.matches(jsonb, jsonb, jsonb, text, int, text, text, text, text, text, int,
    timestamptz, timestamptz, bigint) is
    'Whether a message with these headers, payload and fields matches the filter. A missing
published_at means now. An invalid filter is refused with QU004.';
revoke all on function pgq.matches(jsonb, jsonb, jsonb, text, int, text, text, text, text, text,
    int, timestamptz, timestamptz, bigint) from public;

-- sql/20_filter/71_compile_filter.sql

-- What a filter becomes: the part of the message it reads, the jsonpath that runs, its operands.
create function pgq.compile_filter(
    filter jsonb, out scope text, out path jsonpath, out tree jsonb, out operands jsonb,
    out operand_count int)
returns setof record
language plpgsql immutable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    tree := pgq._filter_parse(filter);
    scope := pgq._filter_scope(tree);
    path := pgq._filter_path(tree);
    operands := pgq._filter_operands(tree);
    operand_count := jsonb_array_length(operands);
    return next;
end
$$;
comment on function pgq.compile_filter(jsonb) is
    'Shows what a filter becomes: scope (what it reads: headers, payload, content for both, message
if its own fields too), path (the jsonpath that runs), tree (its normal form) and its operands.
QU004 if the filter is invalid.';
revoke all on function pgq.compile_filter(jsonb) from public;

-- sql/20_filter/72_filter_header.sql

-- The field name of a header, for the builders; refuses a key that they cannot use.
create function pgq._filter_header(key text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if key is null or key = '' then
        perform pgq._filter_error('the header key is missing', 'key', 'Name a header.');
    elsif key ~ E'\\.' then
        perform pgq._filter_error('invalid key ' || left(to_json(key)::text, 64), 'key',
            'A header key has no dots; write {"$path": ["headers", "a.b"], "$eq": ...} instead.');
    end if;
    perform pgq._filter_parse_name(key, 'headers', '{}', 'key');
    -- these three names alone would be a scope
    return case when key in ('headers', 'payload', 'msg') then 'headers.' || key else key end;
end
$$;
comment on function pgq._filter_header(text) is
    'Validates the header key of a builder and gives its field name; QU004 if it cannot be used.';
revoke all on function pgq._filter_header(text) from public;

-- sql/20_filter/73_header_equals.sql

-- Builds a filter: the header is this text.
create function pgq.header_equals(key text, value text)
returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    if value is null then
        perform pgq._filter_error('the value is missing', 'value',
            'Give a text, or write {"key": null} for a header that is null.');
    end if;
    return jsonb_build_object(v_name, value);
end
$$;
comment on function pgq.header_equals(text, text) is
    'A filter for messages whose header is this text.';
revoke all on function pgq.header_equals(text, text) from public;

-- sql/20_filter/74_header_in.sql

-- Builds a filter: the header is one of these texts.
create function pgq.header_in(key text, "values" text[])
returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    if cardinality("values") is null or array_position("values", null) is not null then
        perform pgq._filter_error('a value is missing', 'values', 'Give a list of texts.');
    end if;
    perform pgq._filter_check_list(to_jsonb("values"), true, 'values');
    return jsonb_build_object(v_name, jsonb_build_object('$in', to_jsonb("values")));
end
$$;
comment on function pgq.header_in(text, text[]) is
    'A filter for messages whose header is one of these texts.';
revoke all on function pgq.header_in(text, text[]) from public;

-- sql/20_filter/75_header_not_equals.sql

-- Builds a filter: the header is something else; a message without it matches only if asked for.
create function pgq.header_not_equals(
    key text, value text, include_missing boolean default false)
returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    if value is null then
        perform pgq._filter_error('the value is missing', 'value',
            'Give a text, or write {"key": {"$isNull": false}} for a header that has a value.');
    end if;
    return case when include_missing
        then jsonb_build_object('$not', jsonb_build_object(v_name, value))
        else jsonb_build_object(v_name, jsonb_build_object('$ne', value)) end;
end
$$;
comment on function pgq.header_not_equals(text, text, boolean) is
    'A filter for messages whose header has another value. A message without the header, or with
null, matches only with include_missing.';
revoke all on function pgq.header_not_equals(text, text, boolean) from public;

-- sql/20_filter/76_header_like.sql

-- Builds a filter: the header matches this SQL pattern.
create function pgq.header_like(key text, pattern text)
returns jsonb
language plpgsql immutable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    perform pgq._filter_check_pattern('like', to_jsonb(pattern), 'pattern');
    return jsonb_build_object(v_name, jsonb_build_object('$like', pattern));
end
$$;
comment on function pgq.header_like(text, text) is
    'A filter for messages whose header matches the pattern: % is any text, _ is one character,
\ escapes.';
revoke all on function pgq.header_like(text, text) from public;

-- sql/20_filter/77_all_of.sql

-- Builds a filter: all of these filters match.
create function pgq.all_of(variadic filters jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(filters), 0) < 2 or array_position(filters, null) is not null then
        perform pgq._filter_error('all_of takes two filters or more', 'filters',
            'Write pgq.all_of(pgq.header_equals(''a'', ''1''), pgq.header_equals(''b'', ''2'')).');
    end if;
    return jsonb_build_object('$and', to_jsonb(filters));
end
$$;
comment on function pgq.all_of(jsonb[]) is
    'A filter for messages that match all of the given filters; at least two.';
revoke all on function pgq.all_of(jsonb[]) from public;

-- sql/20_filter/78_any_of.sql

-- Builds a filter: any of these filters match.
create function pgq.any_of(variadic filters jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(filters), 0) < 2 or array_position(filters, null) is not null then
        perform pgq._filter_error('any_of takes two filters or more', 'filters',
            'Write pgq.any_of(pgq.header_equals(''a'', ''1''), pgq.header_equals(''b'', ''2'')).');
    end if;
    return jsonb_build_object('$or', to_jsonb(filters));
end
$$;
comment on function pgq.any_of(jsonb[]) is
    'A filter for messages that match any of the given filters; at least two.';
revoke all on function pgq.any_of(jsonb[]) from public;

-- sql/25_core/check_topic.sql

-- Raises 22023 unless the text can name a topic or a queue.
create function pgq._check_topic(topic text) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if topic is null or topic = '' then
        raise exception 'a topic needs a name'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words separated by dots, such as orders.created.';
    end if;
    if length(topic) > 255 then
        raise exception 'topic "%..." is longer than 255 characters', left(topic, 40)
            using errcode = 'invalid_parameter_value',
                  hint = 'Shorten it; what varies from message to message belongs into a header.';
    end if;
    if topic !~ E'^[^[:space:][:cntrl:].*#]+(\\.[^[:space:][:cntrl:].*#]+)*$' then
        raise exception 'invalid topic "%"', topic
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words separated by single dots, without spaces, * and #.';
    end if;
end
$$;
comment on function pgq._check_topic(text) is 'Raises 22023 unless the text can name a topic.';
revoke all on function pgq._check_topic(text) from public;

-- sql/25_core/checksum.sql

-- 32 bits that tell whether a copy of a message is faithful; a copy elsewhere computes the same.
create function pgq._checksum(message pgq.message) returns bigint
language sql stable parallel safe
return ('x' || left(md5(concat_ws('|', message.id, message.topic, message.priority,
    message.headers, message.payload,
    round(date_part('epoch', message.published_at) * 1000000)::bigint)), 8))::bit(32)::bigint;
comment on function pgq._checksum(pgq.message) is
    'What tells whether a copy of a message is faithful.';
revoke all on function pgq._checksum(pgq.message) from public;

-- sql/25_core/find_filter.sql

-- A filter in compiled form: from the cache, or compiled now (then its filter_id is null).
create function pgq._find_filter(document jsonb, lane_keys text[]) returns pgq.filter
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_hash bigint := jsonb_hash_extended(document, 0);
    v_tree jsonb;
begin
    select f.* into v_filter from pgq.filter f
    where f.hash = v_hash and f.document = _find_filter.document
      and f.lane_keys is not distinct from _find_filter.lane_keys
    order by f.filter_id limit 1;
    if not found then
        v_tree := pgq._filter_parse(document);
        v_filter.hash := v_hash;
        v_filter.document := document;
        v_filter.lane_keys := lane_keys;
        v_filter.scope := pgq._filter_scope(v_tree);
        v_filter.path := pgq._filter_path(v_tree);
        v_filter.lane_final := false;
        if lane_keys is not null then
            select pgq._filter_path(w.tree), w.final
            into v_filter.lane_path, v_filter.lane_final
            from pgq._filter_weaken(v_tree, lane_keys) w;
        end if;
    end if;
    return v_filter;
end
$$;
comment on function pgq._find_filter(jsonb, text[]) is 'A filter in compiled form, or QU004.';
revoke all on function pgq._find_filter(jsonb, text[]) from public;

-- sql/25_core/first_ids.sql

-- The n lowest ids of a set.
create function pgq._first_ids(ids int8multirange, n bigint) returns int8multirange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_range int8range;
    v_taken int8range[] := '{}';
    v_left bigint := n;
begin
    if isempty(ids) then
        return ids;
    end if;
    if int8multirange(range_merge(ids)) = ids then
        return int8multirange(int8range(lower(ids), least(lower(ids) + n, upper(ids))));
    end if;
    for v_range in select unnest(ids) loop
        if upper(v_range) - lower(v_range) >= v_left then
            return int8multirange(
                variadic v_taken || int8range(lower(v_range), lower(v_range) + v_left));
        end if;
        v_taken := v_taken || v_range;
        v_left := v_left - (upper(v_range) - lower(v_range));
    end loop;
    return ids;
end
$$;
comment on function pgq._first_ids(int8multirange, bigint) is 'The n lowest ids of a set.';
revoke all on function pgq._first_ids(int8multirange, bigint) from public;

-- sql/25_core/is_owner.sql

-- May the caller do everything? For functions that run with their owner's rights: the owner, its
-- members and superusers may. An expression that is inlined, because it is asked by every call.
create function pgq._is_owner(caller name) returns boolean
language sql stable parallel safe
return coalesce(caller = current_user or pg_has_role(caller, current_user, 'usage'), false);
comment on function pgq._is_owner(name) is 'May the caller do everything?';
revoke all on function pgq._is_owner(name) from public;

-- sql/25_core/is_received.sql

-- Does one of these queues receive such a message, by its bindings of today?
create function pgq._is_received(queues int[], message pgq.message) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select from pgq.binding b
        where b.queue_id = any (queues)
          and (b.regex is null and b.pattern = message.topic or message.topic ~ b.regex)
          and pgq._test_filter(
              b.path, b.scope, message.headers, message.payload, message.topic, message.priority,
              message.sender, message.recipient, message.reply_to, message.correlation_id,
              message.group_key, 1, message.published_at, message.expires_at, message.id,
              pgq.now()));
end
$$;
comment on function pgq._is_received(int[], pgq.message) is
    'Does one of these queues receive such a message?';
revoke all on function pgq._is_received(int[], pgq.message) from public;

-- sql/25_core/keep_filter.sql

-- A filter in compiled form, kept in the cache for the next time.
create function pgq._keep_filter(document jsonb, lane_keys text[]) returns pgq.filter
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._find_filter(document, lane_keys);
begin
    -- Two sessions may keep the same filter at once: either row is right, and nobody waits.
    if v_filter.filter_id is null and (select count(*) < 10000 from pgq.filter) then
        insert into pgq.filter (hash, document, lane_keys, scope, path, lane_path, lane_final)
        values (v_filter.hash, v_filter.document, v_filter.lane_keys, v_filter.scope,
                v_filter.path, v_filter.lane_path, v_filter.lane_final)
        returning * into v_filter;
    end if;
    return v_filter;
end
$$;
comment on function pgq._keep_filter(jsonb, text[]) is
    'A filter in compiled form, kept for the next time.';
revoke all on function pgq._keep_filter(jsonb, text[]) from public;

-- sql/25_core/lane_label.sql

-- The values of the lane keys, in order. Header values are scalars, so [] can say "missing".
create function pgq._lane_label(headers jsonb, lane_keys text[]) returns jsonb
language sql stable parallel safe
return jsonb_build_array(
    coalesce(headers -> lane_keys[1], '[]'),
    coalesce(headers -> lane_keys[2], '[]'),
    coalesce(headers -> lane_keys[3], '[]'),
    coalesce(headers -> lane_keys[4], '[]'));
comment on function pgq._lane_label(jsonb, text[]) is 'What the messages of a lane have in common.';
revoke all on function pgq._lane_label(jsonb, text[]) from public;

-- sql/25_core/lease_second.sql

-- The first token of leases that end in the second of that moment: 2025 is second 0, and 30 bits
-- of seconds with 23 bits of sequence stay exact in a JavaScript number.
create function pgq._lease_second(moment timestamptz) returns bigint
language sql stable parallel safe
return least(greatest(floor(date_part('epoch', moment) - 1735689600), 0), 1073741822)::bigint << 23;
comment on function pgq._lease_second(timestamptz) is
    'The first lease token of the second of that moment.';
revoke all on function pgq._lease_second(timestamptz) from public;

-- sql/25_core/lose_lease.sql

-- Raises QU003: one answer for a lease that is gone and for one of a queue not to be seen.
create function pgq._lose_lease(lease_id bigint) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'lease % is lost', coalesce(lease_id::text, 'null')
        using errcode = 'QU003',
              hint = 'It was ended, or it expired and its messages are with another consumer. '
                  'Ask for a longer lease, or extend it while you work.';
end
$$;
comment on function pgq._lose_lease(bigint) is 'Raises QU003.';
revoke all on function pgq._lose_lease(bigint) from public;

-- sql/25_core/now.sql

-- The clock of all leases, delays and expiries. Tests replace this one function.
create function pgq.now() returns timestamptz
language sql volatile parallel safe
return pg_catalog.clock_timestamp();
comment on function pgq.now() is 'The clock that leases, delays and expiries go by.';
revoke all on function pgq.now() from public;

-- sql/25_core/queue.sql

-- The queue of that name, or QU001.
create function pgq._queue(name text) returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    select q.* into v_queue from pgq.queue q where q.name = _queue.name;
    if not found then
        raise exception 'queue "%" does not exist', coalesce(_queue.name, '<null>')
            using errcode = 'QU001',
                  hint = 'Create it with pgq.create_queue(name) or pgq.subscribe(name, pattern).';
    end if;
    return v_queue;
end
$$;
comment on function pgq._queue(text) is 'The queue of that name, or QU001.';
revoke all on function pgq._queue(text) from public;

-- sql/25_core/queue_for.sql

-- The queue of that name, for a caller who has the right to it.
create function pgq._queue_for(caller name, "right" text, name text) returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, _queue_for.right, _queue_for.name);
    end if;
    return pgq._queue(_queue_for.name);
end
$$;
comment on function pgq._queue_for(name, text, text) is
    'The queue of that name, for a caller who has the right to it.';
revoke all on function pgq._queue_for(name, text, text) from public;

-- sql/25_core/rank.sql

-- One number that sorts as (priority descending, what comes back before what is fresh, lowest id):
-- 2^50 apart for each priority, 2^49 for fresh. Being one number, a scan can start anywhere in it,
-- and fresh messages, which only ever arrive at the end, can be told from those that come back.
create function pgq._rank(priority int, back boolean, id bigint) returns bigint
language sql immutable parallel safe
return -priority::bigint * 1125899906842624
    + case when back then 0 else 562949953421312 end + id;
comment on function pgq._rank(int, boolean, bigint) is 'Where in its queue a message stands.';
revoke all on function pgq._rank(int, boolean, bigint) from public;

-- sql/25_core/refuse_old_routing.sql

-- Raises 40001 if the transaction reads with a snapshot from before the last change of a queue: it
-- might not know which lanes the queue has now, and put a message where no claim looks for it.
create function pgq._refuse_old_routing() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- To lock a row that has changed is what fails. The lock itself is not wanted: rolling back to
    -- here gives it up at once. Called by transactions that write already, so that a change to come
    -- knows of them.
    perform from pgq.routing for share skip locked;
    raise exception using errcode = 'QU000';
exception
    when sqlstate 'QU000' then
        null;
end
$$;
comment on function pgq._refuse_old_routing() is
    'Raises 40001 if the transaction does not know the last change of a queue.';
revoke all on function pgq._refuse_old_routing() from public;

-- sql/25_core/refuse_snapshot.sql

-- Raises 40001 if the transaction reads with an old snapshot; called when messages were not found.
--
-- TRUNCATE empties an era also for snapshots from before, and those do not see where its unfinished
-- messages were carried either. Under READ COMMITTED every statement has a new snapshot, taken
-- after it has locked the log: what it does not find there is not there.
create function pgq._refuse_snapshot() returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'an era of the log was emptied after this transaction began'
            using errcode = 'serialization_failure',
                  hint = 'Roll back and try again, best under READ COMMITTED.';
    end if;
end
$$;
comment on function pgq._refuse_snapshot() is
    'Raises 40001 if the transaction reads with an old snapshot.';
revoke all on function pgq._refuse_snapshot() from public;

-- sql/25_core/require.sql

-- Raises 42501 unless the caller, who is not the owner, has the right to the queue. One answer for
-- a queue that it may not use and for one that is not there.
create function pgq._require(caller name, "right" text, queue text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq.queue q
        join pgq.queue_right r on r.queue_id = q.queue_id
        where q.name = _require.queue and r.right in (_require.right, 'admin')
          and pg_has_role(_require.caller, r.role, 'usage'))
    then
        raise exception 'permission denied for queue "%"', coalesce(queue, '<null>')
            using errcode = 'insufficient_privilege',
                  hint = format('If there is such a queue, its owner can grant you the right: '
                      'pgq.grant_queue(queue, role, %L).', _require.right);
    end if;
end
$$;
comment on function pgq._require(name, text, text) is
    'Raises 42501 unless the caller has the right to the queue.';
revoke all on function pgq._require(name, text, text) from public;

-- sql/25_core/require_lease.sql

-- Raises QU003 unless the caller, who is not the owner, may consume the queue of the lease: tokens
-- are numbers that can be guessed.
create function pgq._require_lease(caller name, lease_id bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq.lease l
        join pgq.queue_right r on r.queue_id = l.queue_id
        where l.lease_id = _require_lease.lease_id and r.right in ('consume', 'admin')
          and pg_has_role(_require_lease.caller, r.role, 'usage'))
    then
        perform pgq._lose_lease(lease_id);
    end if;
end
$$;
comment on function pgq._require_lease(name, bigint) is
    'Raises QU003 unless the caller may consume the queue of the lease.';
revoke all on function pgq._require_lease(name, bigint) from public;

-- sql/25_core/require_topic.sql

-- Raises 42501 unless the caller, who is not the owner, may publish to a queue that receives the
-- topic, whatever its filter. One answer for a topic that it may not use and for one that nobody
-- receives.
create function pgq._require_topic(caller name, topic text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (
        select from pgq.binding b
        join pgq.queue_right r on r.queue_id = b.queue_id
        where b.pattern = _require_topic.topic and b.regex is null
          and r.right in ('publish', 'admin')
          and pg_has_role(_require_topic.caller, r.role, 'usage'))
    then
        return;
    end if;
    -- Patterns only of the queues that the caller may publish to.
    if exists (
        select from pgq.queue_right r
        join pgq.binding b on b.queue_id = r.queue_id
        where r.right in ('publish', 'admin')
          and pg_has_role(_require_topic.caller, r.role, 'usage')
          and _require_topic.topic ~ b.regex)
    then
        return;
    end if;
    raise exception 'permission denied for topic "%"', topic
        using errcode = 'insufficient_privilege',
              hint = 'If a queue receives it, its owner can grant you the right: '
                  'pgq.grant_queue(queue, role, ''publish'').';
end
$$;
comment on function pgq._require_topic(name, text) is
    'Raises 42501 unless the caller may publish to a queue that receives the topic.';
revoke all on function pgq._require_topic(name, text) from public;

-- sql/25_core/set_of.sql

-- The set of the given ids.
create function pgq._set_of(ids bigint[]) returns int8multirange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(range_agg(int8range(i, i + 1)), '{}')
        from unnest(ids) i where i is not null);
end
$$;
comment on function pgq._set_of(bigint[]) is 'The set of the given ids.';
revoke all on function pgq._set_of(bigint[]) from public;

-- sql/25_core/set_size.sql

-- How many ids a set holds.
create function pgq._set_size(ids int8multirange) returns int
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_size bigint := upper(ids) - lower(ids);
    v_range int8range;
begin
    if int8multirange(range_merge(ids)) = ids then
        return coalesce(v_size, 0)::int;
    end if;
    v_size := 0;
    for v_range in select unnest(ids) loop
        v_size := v_size + upper(v_range) - lower(v_range);
    end loop;
    return v_size::int;
end
$$;
comment on function pgq._set_size(int8multirange) is 'How many ids a set holds.';
revoke all on function pgq._set_size(int8multirange) from public;

-- sql/25_core/slice_ranges.sql

-- The part of a set that belongs to a slice: every so many-th block of 64 ids, so that a message
-- stays in its slice when others leave the set, and neighbours are read together.
create function pgq._slice_ranges(ids int8multirange, slice int, "of" int)
returns setof int8range
language sql immutable parallel safe
begin atomic
    select r * int8range(b << 6, (b + 1) << 6)
    from unnest(ids) r
    cross join lateral generate_series(
        (lower(r) >> 6) + ((slice - (lower(r) >> 6)) % "of" + "of") % "of",
        (upper(r) - 1) >> 6, "of") b;
end;
comment on function pgq._slice_ranges(int8multirange, int, int) is
    'The part of a set of ids that belongs to a slice.';
revoke all on function pgq._slice_ranges(int8multirange, int, int) from public;

-- sql/25_core/take_turn.sql

-- Waits until nobody else does this, and keeps others waiting until the transaction ends.
create function pgq._take_turn(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.turn t where t.what = _take_turn.what for update;
end
$$;
comment on function pgq._take_turn(text) is 'Waits until no other transaction does the same.';
revoke all on function pgq._take_turn(text) from public;

-- sql/25_core/try_turn.sql

-- The same without waiting: false if somebody else is at it.
create function pgq._try_turn(what text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.turn t where t.what = _try_turn.what for update skip locked;
    return found;
end
$$;
comment on function pgq._try_turn(text) is 'Whether no other transaction does the same.';
revoke all on function pgq._try_turn(text) from public;

-- sql/25_core/visible_queues.sql

-- The queues that the caller may consume; null: all of them, for the owner.
create function pgq._visible_queues(caller name) returns int[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq._is_owner(caller) then
        return null;
    end if;
    return array(
        select distinct r.queue_id from pgq.queue_right r
        where r.right in ('consume', 'admin')
          and pg_has_role(_visible_queues.caller, r.role, 'usage'));
end
$$;
comment on function pgq._visible_queues(name) is 'The queues that the caller may consume.';
revoke all on function pgq._visible_queues(name) from public;

-- sql/28_set/add_range.sql

-- Makes ready rows of at most size ids from low to high, which share everything else.
create function pgq._add_range(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, low bigint, high bigint, size int
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, failures, ids)
    select _add_range.queue_id, _add_range.lane_id, pgq._rank(_add_range.priority, back, i),
           _add_range.attempt, least(_add_range.size, high - i + 1), pg_current_xact_id(),
           _add_range.expires_at, _add_range.grouped, _add_range.failures,
           int8multirange(int8range(i, least(i + _add_range.size, high + 1)))
    from generate_series(low, high, _add_range.size) i;
end
$$;
comment on function pgq._add_range(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint, bigint, int) is
    'Makes ready rows from a range of ids that share everything else.';
revoke all on function pgq._add_range(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint, bigint, int) from public;

-- sql/28_set/add_ready.sql

-- Makes ready rows of at most size ids from sorted ids that share everything else.
create function pgq._add_ready(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], size int
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := ids[1];
    v_high bigint := ids[cardinality(ids)];
begin
    if v_high - v_low + 1 = cardinality(ids) then
        perform pgq._add_range(queue_id, lane_id, priority, back, attempt, expires_at, failures,
                               grouped, v_low, v_high, size);
        return;
    end if;
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, failures, ids)
    select _add_ready.queue_id, _add_ready.lane_id,
           pgq._rank(_add_ready.priority, back, min(i)), _add_ready.attempt, count(*),
           pg_current_xact_id(), _add_ready.expires_at, _add_ready.grouped, _add_ready.failures,
           range_agg(int8range(i, i + 1))
    from unnest(_add_ready.ids) with ordinality u (i, n)
    group by (n - 1) / _add_ready.size;
end
$$;
comment on function pgq._add_ready(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int) is
    'Makes ready rows from sorted ids that share everything else.';
revoke all on function pgq._add_ready(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int) from public;

-- sql/28_set/admit_heads.sql

-- Makes heads of ordering groups ready, or schedules those that are still delayed.
create function pgq._admit_heads(
    queue pgq.queue, ids bigint[], failures jsonb, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_count int := 0;
begin
    for v_set in
        select case when m.deliver_at > now and m.deliver_at < 'infinity' then m.deliver_at end
                   as due_at,
               count(*)::int as size, range_agg(int8range(m.id, m.id + 1)) as ids
        from unnest(_admit_heads.ids) i join pgq.message m on m.id = i
        group by 1
    loop
        v_count := v_count + v_set.size;
        if v_set.due_at is not null then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (queue.queue_id, v_set.due_at, 0, v_set.size, true, failures, v_set.ids);
            perform pgq._wake(queue.queue_id);
        else
            perform pgq._enqueue(
                queue, v_set.ids, 0, failures, true, back => failures is not null);
        end if;
    end loop;
    if v_count < cardinality(_admit_heads.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._admit_heads(pgq.queue, bigint[], jsonb, timestamptz) is
    'Makes heads of ordering groups ready, or schedules those that are still delayed.';
revoke all on function pgq._admit_heads(pgq.queue, bigint[], jsonb, timestamptz) from public;

-- sql/28_set/advance_group.sql

-- Lets the next in line take the place of a head that is done, for the caller to admit; null if
-- there is none. Held: another transaction has the group, and nothing was done.
create function pgq._advance_group(
    queue_id int, group_key text, message_id bigint,
    out held boolean, out next_id bigint, out failures jsonb)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head bigint;
begin
    held := false;
    select h.message_id into v_head from pgq.group_head h
    where h.queue_id = _advance_group.queue_id and h.group_key = _advance_group.group_key
    for update skip locked;
    if not found then
        held := exists (
            select from pgq.group_head h
            where h.queue_id = _advance_group.queue_id
              and h.group_key = _advance_group.group_key);
        return;
    end if;
    if v_head <> message_id then
        return;  -- not the head: nothing has changed for the group
    end if;
    delete from pgq.group_line l
    where l.queue_id = _advance_group.queue_id and l.group_key = _advance_group.group_key
      and l.message_id = (
          select min(n.message_id) from pgq.group_line n
          where n.queue_id = _advance_group.queue_id and n.group_key = _advance_group.group_key)
    returning l.message_id, l.failures into next_id, failures;
    if next_id is null then
        delete from pgq.group_head h
        where h.queue_id = _advance_group.queue_id and h.group_key = _advance_group.group_key;
    else
        update pgq.group_head h set message_id = next_id
        where h.queue_id = _advance_group.queue_id and h.group_key = _advance_group.group_key;
    end if;
end
$$;
comment on function pgq._advance_group(int, text, bigint) is
    'Lets the next in line take the place of a group''s head.';
revoke all on function pgq._advance_group(int, text, bigint) from public;

-- sql/28_set/advance_groups.sql

-- The heads with these ids are done: whoever is next in line takes their place.
create function pgq._advance_groups(
    queue pgq.queue, ids int8multirange, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_next record;
    v_heads bigint[] := '{}';
    v_count int := 0;
begin
    for v_message in
        select m.id, m.group_key from unnest(_advance_groups.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where m.group_key is not null order by m.group_key, m.id
    loop
        v_count := v_count + 1;
        -- A publisher may hold the group and be about to stand in line. An acknowledgement does
        -- not wait for it: it leaves a note, and a claim after the publisher's commit moves on.
        v_next := pgq._advance_group(queue.queue_id, v_message.group_key, v_message.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (queue.queue_id, v_message.group_key, v_message.id);
        elsif v_next.failures is not null then
            perform pgq._admit_heads(queue, array[v_next.next_id], v_next.failures, now);
        elsif v_next.next_id is not null then
            v_heads := v_heads || v_next.next_id;
        end if;
    end loop;
    if v_heads <> '{}' then
        perform pgq._admit_heads(queue, v_heads, null, now);
    end if;
    if v_count < pgq._set_size(_advance_groups.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._advance_groups(pgq.queue, int8multirange, timestamptz) is
    'Lets the next of each group take the place of a head that is done.';
revoke all on function pgq._advance_groups(pgq.queue, int8multirange, timestamptz) from public;

-- sql/28_set/backfill.sql

-- Adds what the log still has to a new subscription. The caller keeps publishers out.
create function pgq._backfill(
    queue pgq.queue, binding pgq.binding, since timestamptz, since_id bigint
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_low bigint;
    v_high bigint;
    v_held int8multirange;
    v_done int8multirange;
    v_set record;
begin
    if queue.mode = 'archive' then
        return;  -- it delivers nothing, and the log has it
    end if;
    select min(m.id), max(m.id) into v_low, v_high from pgq.message m;
    v_low := greatest(v_low, since_id);
    -- What the queue holds by another binding it has already.
    select coalesce(range_agg(h.ids), '{}') into v_held
    from (
        select r.ids from pgq.ready r where r.queue_id = queue.queue_id
        union all
        select s.ids from pgq.scheduled s where s.queue_id = queue.queue_id
        union all
        select l.ids from pgq.lease l where l.queue_id = queue.queue_id
        union all
        select int8multirange(int8range(d.message_id, d.message_id + 1))
        from pgq.dead_letter d where d.queue_id = queue.queue_id
        union all
        select int8multirange(int8range(g.message_id, g.message_id + 1))
        from pgq.group_line g where g.queue_id = queue.queue_id
    ) h;
    if queue.journal = 'all' then
        select coalesce(range_agg(j.ids), '{}') into v_done from pgq.journal j
        where j.queue_id = queue.queue_id and j.event in ('ack', 'discard', 'expire');
    end if;
    while v_low <= v_high loop
        for v_set in
            -- Those of ordering groups all together: their order is that of their ids.
            select case when m.deliver_at > v_now and m.group_key is null then m.deliver_at end
                       as due_at,
                   m.group_key is not null as grouped, array_agg(m.id order by m.id) as ids
            from pgq.message m
            where m.id >= v_low and m.id < v_low + 100000
              and (since is null or m.published_at >= since)
              and m.deliver_at is distinct from 'infinity'
              and (m.expires_at is null or m.expires_at > v_now)
              and (m.topic = binding.pattern and binding.regex is null or m.topic ~ binding.regex)
              and pgq._test_filter(
                  binding.path, binding.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
                  m.recipient, m.reply_to, m.correlation_id, m.group_key, 1, m.published_at,
                  m.expires_at, m.id, v_now)
              and not v_held @> m.id
              -- and what it has finished by another binding it does not get again. If no journal
              -- tells, what a binding matches that was there at the time counts as finished.
              and not (coalesce(v_done @> m.id, true) and exists (
                  select from pgq.binding b
                  where b.queue_id = queue.queue_id and b.binding_id <> binding.binding_id
                    and (v_done is not null or b.created_at <= m.published_at)
                    and (m.topic = b.pattern and b.regex is null or m.topic ~ b.regex)
                    and pgq._test_filter(
                        b.path, b.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
                        m.recipient, m.reply_to, m.correlation_id, m.group_key, 1,
                        m.published_at, m.expires_at, m.id, v_now)))
            group by 1, 2
        loop
            if v_set.grouped then
                -- A group that was to move on from one of these has it again.
                delete from pgq.group_stall s
                where s.queue_id = queue.queue_id and s.message_id = any (v_set.ids);
                perform pgq._admit_heads(
                    queue, pgq._join_groups(queue.queue_id, v_set.ids, null), null, v_now);
            elsif v_set.due_at is not null then
                insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
                values (queue.queue_id, v_set.due_at, 0, cardinality(v_set.ids),
                        pgq._set_of(v_set.ids));
                perform pgq._wake(queue.queue_id);
            else
                perform pgq._enqueue(queue, pgq._set_of(v_set.ids), 0, null, false);
            end if;
        end loop;
        -- Ids may have gaps of any size.
        select min(m.id) into v_low from pgq.message m where m.id >= v_low + 100000;
    end loop;
end
$$;
comment on function pgq._backfill(pgq.queue, pgq.binding, timestamptz, bigint) is
    'Adds what the log still has to a new subscription.';
revoke all on function pgq._backfill(pgq.queue, pgq.binding, timestamptz, bigint) from public;

-- sql/28_set/enqueue.sql

-- Makes messages of the log ready (again): retries, delayed ones, replays. To revive them is to
-- forget that they expire. What comes back stands before what is fresh.
create function pgq._enqueue(
    queue pgq.queue, ids int8multirange, attempt int, failures jsonb, grouped boolean,
    revive boolean default false, back boolean default true
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Once replayed after its time, a message does not expire any more.
    v_replayed timestamptz := (jsonb_path_query_array(
        coalesce(failures, '[]'), '$[*] ? (@.outcome == "replay").at') ->> -1)::timestamptz;
    v_group record;
    v_count int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq._refuse_old_routing();
    end if;
    for v_group in
        select m.priority,
               case when not revive and (v_replayed is null or m.expires_at > v_replayed) then
                   m.expires_at
               end as expires_at,
               case when queue.lane_keys is not null then
                   pgq._lane_label(m.headers, queue.lane_keys)
               end as label,
               array_agg(m.id order by m.id) as ids
        from unnest(_enqueue.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        group by 1, 2, 3
    loop
        perform pgq._add_ready(
            queue.queue_id,
            case when v_group.label is not null then
                pgq._lane(queue.queue_id, queue.lane_keys, queue.lanes_full, v_group.label)
            end,
            v_group.priority, _enqueue.back, _enqueue.attempt, v_group.expires_at,
            _enqueue.failures, _enqueue.grouped, v_group.ids, queue.set_size);
        v_count := v_count + cardinality(v_group.ids);
    end loop;
    if v_count < pgq._set_size(_enqueue.ids) then
        perform pgq._refuse_snapshot();
    end if;
    perform pgq._wake(queue.queue_id);
end
$$;
comment on function pgq._enqueue(
    pgq.queue, int8multirange, int, jsonb, boolean, boolean, boolean) is
    'Makes messages of the log ready (again).';
revoke all on function pgq._enqueue(
    pgq.queue, int8multirange, int, jsonb, boolean, boolean, boolean) from public;

-- sql/28_set/join_groups.sql

-- Puts messages into their ordering groups, in order: the first of a group that has no head
-- becomes its head and is returned, the others stand in line.
create function pgq._join_groups(queue_id int, ids bigint[], failures jsonb)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_head bigint;
    v_heads bigint[] := '{}';
begin
    -- In the order of the keys, so that two publishers with the same groups cannot wait for each
    -- other. A publisher that uses a group holds it until it commits: its order is then known.
    for v_message in
        select m.id, m.group_key from unnest(_join_groups.ids) i join pgq.message m on m.id = i
        order by m.group_key, m.id
    loop
        insert into pgq.group_head as h (queue_id, group_key, message_id)
        values (_join_groups.queue_id, v_message.group_key, v_message.id)
        on conflict on constraint group_head_pkey do update set message_id = h.message_id
        returning h.message_id into v_head;
        if v_head = v_message.id then
            v_heads := v_heads || v_head;
        else
            insert into pgq.group_line (queue_id, group_key, message_id, failures)
            values (_join_groups.queue_id, v_message.group_key, v_message.id,
                    _join_groups.failures);
        end if;
    end loop;
    return v_heads;
end
$$;
comment on function pgq._join_groups(int, bigint[], jsonb) is
    'Puts messages into their ordering groups and returns those whose turn it is.';
revoke all on function pgq._join_groups(int, bigint[], jsonb) from public;

-- sql/28_set/lane.sql

-- The lane with that label, made if new. Too many lanes, or too long a label: the mixed lane.
create function pgq._lane(
    queue_id int, lane_keys text[], lanes_full boolean, label jsonb
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_label jsonb := case when pg_column_size(label) <= 512 then label end;
    v_lane_id int;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- An old snapshot may show a lane that has been removed: 40001 then.
        begin
            perform from pgq.lane l
            where l.queue_id = _lane.queue_id and l.lane_keys = _lane.lane_keys
              and (l.label = v_label or l.label is null) and l.idle is null
            for share;
            raise exception using errcode = 'QU000';
        exception
            when sqlstate 'QU000' then
                null;  -- the locks are given up
        end;
    end if;
    if v_label is not null then
        select l.lane_id into v_lane_id from pgq.lane l
        where l.queue_id = _lane.queue_id and l.label = v_label and l.lane_keys = _lane.lane_keys
          and l.idle is null
        order by l.lane_id limit 1;
        if found then
            return v_lane_id;
        end if;
        if not lanes_full and (
            select count(*) >= 1000 from pgq.lane l where l.queue_id = _lane.queue_id)
        then
            -- Whoever gets the row says so to all publishers to come; nobody waits for it.
            perform from pgq.queue q
            where q.queue_id = _lane.queue_id and not q.lanes_full for update skip locked;
            if found then
                update pgq.queue q set lanes_full = true where q.queue_id = _lane.queue_id;
                raise warning 'queue % has more than 1000 lanes', _lane.queue_id
                    using hint = 'Lane keys are for headers with few values: messages with new '
                        'values share one mixed lane and are tested one by one.';
            end if;
            v_label := null;
        elsif lanes_full then
            v_label := null;
        end if;
    end if;
    if v_label is null then
        select l.lane_id into v_lane_id from pgq.lane l
        where l.queue_id = _lane.queue_id and l.label is null and l.lane_keys = _lane.lane_keys
          and l.idle is null
        order by l.lane_id limit 1;
        if found then
            return v_lane_id;
        end if;
    end if;
    insert into pgq.lane (queue_id, lane_keys, label, headers)
    select _lane.queue_id, _lane.lane_keys, v_label,
           case when v_label is not null then (
               select coalesce(jsonb_object_agg(k, v_label -> (i - 1)::int), '{}')
               from unnest(_lane.lane_keys) with ordinality u (k, i)
               where v_label -> (i - 1)::int <> '[]')
           end
    returning lane_id into v_lane_id;
    return v_lane_id;
end
$$;
comment on function pgq._lane(int, text[], boolean, jsonb) is 'The lane with that label.';
revoke all on function pgq._lane(int, text[], boolean, jsonb) from public;

-- sql/28_set/wake.sql

-- Notifies the consumers that wait for a queue, if there are any.
create function pgq._wake(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- PostgreSQL sends equal notifications of a transaction once. Every role that can connect hears
    -- them: where not all may know of all queues, the name is not said.
    perform pg_notify('pgq', case when exists (select from pgq.queue_right) then q.signal::text
                             else q.name end)
    from pgq.queue q
    where q.queue_id = _wake.queue_id
      and (exists (select from pgq.waiter w
                   where w.queue_id = q.queue_id and w.until > pgq.now())
           -- An old snapshot may not know who waits.
           or current_setting('transaction_isolation') <> 'read committed');
end
$$;
comment on function pgq._wake(int) is 'Notifies the consumers that wait for a queue.';
revoke all on function pgq._wake(int) from public;

-- sql/30_queue/addressed_to.sql

-- The filter for messages to one recipient or to everybody.
create function pgq.addressed_to(recipient text) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if recipient is null then
        return '{}'::jsonb;
    end if;
    return jsonb_build_object('$or', jsonb_build_array(
        jsonb_build_object('msg.recipient', recipient),
        '{"msg.recipient": {"$isNull": true}}'::jsonb));
end
$$;
comment on function pgq.addressed_to(text) is
    'A filter document for messages that are addressed to the recipient, or to nobody in '
    'particular '
    '(broadcast). Null selects everything.';
revoke all on function pgq.addressed_to(text) from public;

-- sql/30_queue/alter_queue.sql

-- Changes what is given, keeps what is null.
create function pgq.alter_queue(
    name text,
    lane_keys text[] default null,
    lease interval default null,
    max_attempts int default null,
    backoff interval default null,
    max_backoff interval default null,
    retention interval default null,
    mode text default null,
    dedup_window interval default null,
    on_expiry text default null,
    set_size int default null,
    journal text default null,
    on_dead text default null,
    suggestions boolean default null,
    caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', alter_queue.name);
    v_before text[];
begin
    -- Lock first: two changes of one queue must not overwrite each other.
    select q.* into strict v_queue from pgq.queue q
    where q.queue_id = v_queue.queue_id for update;
    v_before := v_queue.lane_keys;
    v_queue.lane_keys := nullif(coalesce(alter_queue.lane_keys, v_queue.lane_keys), '{}');
    v_queue.lease := coalesce(alter_queue.lease, v_queue.lease);
    v_queue.max_attempts := coalesce(alter_queue.max_attempts, v_queue.max_attempts);
    v_queue.backoff := coalesce(alter_queue.backoff, v_queue.backoff);
    v_queue.max_backoff := coalesce(alter_queue.max_backoff, v_queue.max_backoff);
    v_queue.retention := coalesce(alter_queue.retention, v_queue.retention);
    v_queue.mode := coalesce(alter_queue.mode, v_queue.mode);
    v_queue.dedup_window := coalesce(alter_queue.dedup_window, v_queue.dedup_window);
    v_queue.on_expiry := coalesce(alter_queue.on_expiry, v_queue.on_expiry);
    v_queue.set_size := coalesce(alter_queue.set_size, v_queue.set_size);
    v_queue.journal := coalesce(alter_queue.journal, v_queue.journal);
    v_queue.on_dead := coalesce(alter_queue.on_dead, v_queue.on_dead);
    v_queue.suggestions := coalesce(alter_queue.suggestions, v_queue.suggestions);
    perform pgq._check_policy(v_queue);

    -- Ready rows keep the lanes they have. A lane of other keys counts as mixed from now on, and
    -- rows without a lane are looked for until none is left: no message is touched here, however
    -- many there are, and a publisher that still uses the old keys does no harm.
    if v_before is distinct from v_queue.lane_keys then
        v_queue.lanes_full := false;
        v_queue.unlaned_rows := v_queue.unlaned_rows or v_before is null;
        v_queue.unlaned_xid := null;
    end if;
    update pgq.queue q
    set lane_keys = v_queue.lane_keys, lanes_full = v_queue.lanes_full,
        unlaned_rows = v_queue.unlaned_rows, unlaned_xid = v_queue.unlaned_xid,
        lease = v_queue.lease,
        max_attempts = v_queue.max_attempts, backoff = v_queue.backoff,
        max_backoff = v_queue.max_backoff, retention = v_queue.retention, mode = v_queue.mode,
        dedup_window = v_queue.dedup_window, on_expiry = v_queue.on_expiry,
        set_size = v_queue.set_size, journal = v_queue.journal,
        on_dead = v_queue.on_dead, suggestions = v_queue.suggestions
    where q.queue_id = v_queue.queue_id;
    perform pgq._rerouted();
end
$$;
comment on function pgq.alter_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, pgq.caller) is
    'Changes the given parts of a queue''s policy; null keeps a part, lane_keys => ''{}'' removes '
    'the lanes. Works on a queue with messages.';
revoke all on function pgq.alter_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, pgq.caller)
    from public;

-- sql/30_queue/alter_subscription.sql

-- Gives a subscription another filter; the next publish follows it.
create function pgq.alter_subscription(
    subscriber text, pattern text, filter jsonb, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', subscriber);
    v_filter pgq.filter;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_pattern(caller, pattern, pgq._pattern_regex(pattern));
    end if;
    if filter is not null and filter <> '{}' then
        v_filter := pgq._find_filter(filter, null);
    end if;
    update pgq.binding b
    set filter = v_filter.document, scope = v_filter.scope, path = v_filter.path
    where b.queue_id = v_queue.queue_id and b.pattern = alter_subscription.pattern;
    if not found then
        raise exception '"%" is not subscribed to "%"', subscriber, pattern
            using errcode = 'undefined_object',
                  hint = 'Subscribe it with pgq.subscribe(subscriber, pattern, filter).';
    end if;
    perform pgq._rerouted();
end
$$;
comment on function pgq.alter_subscription(text, text, jsonb, pgq.caller) is
    'Gives a subscription another filter, null for none. The next publish follows it; what the '
    'queue has received stays in it.';
revoke all on function pgq.alter_subscription(text, text, jsonb, pgq.caller) from public;

-- sql/30_queue/change_right.sql

-- Adds a right or takes it away; false if that changes nothing.
create function pgq._change_right(
    queue text, role name, "right" text, granted boolean
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_role regrole;
    v_changed boolean;
begin
    if _change_right.right is null
       or _change_right.right not in ('publish', 'consume', 'admin')
    then
        raise exception 'unknown right "%"', coalesce(_change_right.right, '<null>')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use publish, consume, or admin, which is both and more.';
    end if;
    select a.oid::regrole into v_role from pg_roles a where a.rolname = _change_right.role;
    if not found then
        raise exception 'role "%" does not exist', coalesce(_change_right.role, '<null>')
            using errcode = 'undefined_object', hint = 'Create it with CREATE ROLE.';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'rights cannot be changed under isolation level %',
            current_setting('transaction_isolation')
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Use READ COMMITTED: an old snapshot does not show all rights.';
    end if;
    perform pgq._lock_rights();
    v_queue := pgq._queue(_change_right.queue);
    perform pgq._sweep_rights();
    if granted then
        insert into pgq.queue_right (queue_id, role, "right")
        values (v_queue.queue_id, v_role, _change_right.right)
        on conflict on constraint queue_right_pkey do nothing;
    else
        delete from pgq.queue_right r
        where r.queue_id = v_queue.queue_id and r.role = v_role
          and r.right = _change_right.right;
    end if;
    v_changed := found;
    perform pgq._set_access(v_role);
    return v_changed;
end
$$;
comment on function pgq._change_right(text, name, text, boolean) is
    'Adds a right or takes it away.';
revoke all on function pgq._change_right(text, name, text, boolean) from public;

-- sql/30_queue/check_policy.sql

-- Raises 22023 unless the policy makes sense.
create function pgq._check_policy(policy pgq.queue) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_problem text;
    v_hint text;
begin
    case
        when not (isfinite(policy.lease) and isfinite(policy.backoff)
                  and isfinite(policy.max_backoff) and isfinite(policy.retention)
                  and isfinite(policy.dedup_window)) then
            v_problem := 'intervals must be finite';
            v_hint := 'Use a long one, such as ''10 years''.';
        when policy.lease is null or policy.lease <= interval '0' then
            v_problem := 'lease must be longer than zero';
            v_hint := 'A lease is the time a consumer has for its messages, such as ''30 s''.';
        when policy.max_attempts is null or policy.max_attempts not between 1 and 1000 then
            v_problem := 'max_attempts must be between 1 and 1000';
            v_hint := 'It counts all deliveries, the first one too.';
        when policy.backoff is null or policy.backoff < interval '0' then
            v_problem := 'backoff must not be negative';
            v_hint := 'It is the delay before the first retry, such as ''1 s''.';
        when policy.max_backoff is null or policy.max_backoff < policy.backoff then
            v_problem := 'max_backoff must not be shorter than backoff';
            v_hint := 'It limits the doubling delay between retries.';
        when policy.retention is null or policy.retention < interval '0' then
            v_problem := 'retention must not be negative';
            v_hint := 'It is how long the log keeps messages, such as ''1 day''.';
        when policy.dedup_window is null or policy.dedup_window < interval '0' then
            v_problem := 'dedup_window must not be negative';
            v_hint := 'It is how long a dedup key keeps duplicates away, such as ''5 min''.';
        when policy.on_expiry is null or policy.on_expiry not in ('dead_letter', 'discard') then
            v_problem := format('unknown on_expiry "%s"', policy.on_expiry);
            v_hint := 'Use dead_letter or discard.';
        when policy.mode is null or policy.mode not in ('queue', 'archive') then
            v_problem := format('unknown mode "%s"', policy.mode);
            v_hint := 'Use queue, or archive to store messages without delivering them.';
        when policy.on_dead is null or policy.on_dead not in ('release', 'block') then
            v_problem := format('unknown on_dead "%s"', policy.on_dead);
            v_hint := 'Use release, or block to hold back a group behind its dead letter.';
        when policy.suggestions is null then
            v_problem := 'suggestions must be true or false';
            v_hint := 'True lets producers name the queue in the header "route".';
        when policy.journal is null or policy.journal not in ('all', 'failures') then
            v_problem := format('unknown journal "%s"', policy.journal);
            v_hint := 'Use all, or failures to leave acknowledgements out.';
        when policy.set_size is null or policy.set_size not between 1 and 1024 then
            v_problem := 'set_size must be between 1 and 1024';
            v_hint := 'It is the most ids in one ready row; 100 suits most queues.';
        when cardinality(policy.lane_keys) > 4 then
            v_problem := 'a queue has at most 4 lane keys';
            v_hint := 'Choose the header keys with few values that most filters look at.';
        when exists (
            select from unnest(policy.lane_keys) k
            where k is null or k !~ '^[a-zA-Z][a-zA-Z0-9_-]{0,127}$') then
            v_problem := 'a lane key must be the name of a header';
            v_hint := 'Letters, digits, _ and -, beginning with a letter, at most 128.';
        when (select count(distinct k) <> count(k) from unnest(policy.lane_keys) k) then
            v_problem := 'lane keys must differ from each other';
            v_hint := 'Name each header key once.';
        else
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_policy(pgq.queue) is 'Raises 22023 unless the policy makes sense.';
revoke all on function pgq._check_policy(pgq.queue) from public;

-- sql/30_queue/create_queue.sql

-- Creates a queue that receives the topic of its name; false if it is there with this policy.
create function pgq.create_queue(
    name text,
    lane_keys text[] default null,
    lease interval default '30 s',
    max_attempts int default 3,
    backoff interval default '1 s',
    max_backoff interval default '5 min',
    retention interval default '1 day',
    mode text default 'queue',
    dedup_window interval default '5 min',
    on_expiry text default 'dead_letter',
    set_size int default 100,
    journal text default 'all',
    on_dead text default 'release',
    suggestions boolean default false
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wanted pgq.queue;
    v_present pgq.queue;
begin
    perform pgq._check_topic(create_queue.name);
    v_wanted.lane_keys := nullif(create_queue.lane_keys, '{}');
    v_wanted.lease := create_queue.lease;
    v_wanted.max_attempts := create_queue.max_attempts;
    v_wanted.backoff := create_queue.backoff;
    v_wanted.max_backoff := create_queue.max_backoff;
    v_wanted.retention := create_queue.retention;
    v_wanted.mode := create_queue.mode;
    v_wanted.dedup_window := create_queue.dedup_window;
    v_wanted.on_expiry := create_queue.on_expiry;
    v_wanted.set_size := create_queue.set_size;
    v_wanted.journal := create_queue.journal;
    v_wanted.on_dead := create_queue.on_dead;
    v_wanted.suggestions := create_queue.suggestions;
    perform pgq._check_policy(v_wanted);

    insert into pgq.queue (name, lane_keys, lease, max_attempts, backoff, max_backoff, retention,
                           mode, dedup_window, on_expiry, set_size, journal, on_dead, suggestions)
    values (create_queue.name, v_wanted.lane_keys, v_wanted.lease, v_wanted.max_attempts,
            v_wanted.backoff, v_wanted.max_backoff, v_wanted.retention, v_wanted.mode,
            v_wanted.dedup_window, v_wanted.on_expiry, v_wanted.set_size,
            v_wanted.journal, v_wanted.on_dead, v_wanted.suggestions)
    on conflict on constraint queue_name_unique do nothing
    returning * into v_present;

    if v_present.queue_id is null then
        select q.* into v_present from pgq.queue q where q.name = create_queue.name;
        v_wanted.queue_id := v_present.queue_id;
        v_wanted.name := v_present.name;
        v_wanted.lanes_full := v_present.lanes_full;
        v_wanted.unlaned_rows := v_present.unlaned_rows;
        v_wanted.unlaned_xid := v_present.unlaned_xid;
        v_wanted.paused := v_present.paused;
        v_wanted.signal := v_present.signal;
        v_wanted.created_at := v_present.created_at;
        if v_present is distinct from v_wanted then
            raise exception 'queue "%" exists with another policy', create_queue.name
                using errcode = 'QU002',
                      hint = 'Change it with pgq.alter_queue, or create it as it is.';
        end if;
        -- A queue made by subscribe has only its subscriptions: now it gets its own topic too.
        insert into pgq.binding (queue_id, pattern, counted)
        values (v_present.queue_id, create_queue.name, false)
        on conflict on constraint binding_queue_pattern_unique do nothing;
        if found then
            perform pgq._rerouted();
        end if;
        return false;
    end if;

    insert into pgq.binding (queue_id, pattern, counted)
    values (v_present.queue_id, create_queue.name, false);
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq.create_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean) is
    'Creates a queue that receives the topic of its name. Returns false if it exists with the same '
    'policy; raises QU002 if it exists with another.';
revoke all on function pgq.create_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean)
    from public;

-- sql/30_queue/drop_queue.sql

-- Drops an empty queue; one with messages only by force.
create function pgq.drop_queue(
    name text, force boolean default false, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', drop_queue.name);
    v_roles regrole[];
begin
    -- Nobody gets a right to the queue meanwhile.
    perform pgq._lock_rights();
    v_roles := array(
        select distinct r.role from pgq.queue_right r where r.queue_id = v_queue.queue_id);
    if not drop_queue.force and (
        exists (select from pgq.ready r where r.queue_id = v_queue.queue_id)
        or exists (select from pgq.scheduled s where s.queue_id = v_queue.queue_id)
        or exists (select from pgq.group_line g where g.queue_id = v_queue.queue_id)
        or exists (select from pgq.lease l where l.queue_id = v_queue.queue_id)
        or exists (select from pgq.dead_letter d where d.queue_id = v_queue.queue_id))
    then
        raise exception 'queue "%" still holds messages', drop_queue.name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Drain it, discard its dead letters, or use force => true.';
    end if;
    delete from pgq.queue q where q.queue_id = v_queue.queue_id;
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    -- What a transaction in flight may still add for this queue is swept by maintain().
    perform pgq._sweep_queue(v_queue.queue_id);
    perform pgq._set_access(r) from unnest(v_roles) r;
    return true;
end
$$;
comment on function pgq.drop_queue(text, boolean, pgq.caller) is
    'Drops a queue. One that still holds messages or dead letters is dropped only by force, and '
    'they are gone with it. False if somebody else dropped it meanwhile.';
revoke all on function pgq.drop_queue(text, boolean, pgq.caller) from public;

-- sql/30_queue/entity_filter.sql

-- The filter for lists of senders and recipients, exact or by regular expression.
create function pgq.entity_filter(
    from_filter text[] default null,
    to_filter text[] default null,
    broadcast_filter boolean default null,
    from_filter_types text[] default null,
    to_filter_types text[] default null
) returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_senders jsonb := pgq._entity_test('msg.sender', from_filter, from_filter_types);
    v_recipients jsonb := pgq._entity_test('msg.recipient', to_filter, to_filter_types);
    v_addressed jsonb := coalesce(v_recipients, '[]');
begin
    -- Recipients and broadcast widen each other; senders narrow the result.
    if broadcast_filter then
        v_addressed := v_addressed || '[{"msg.recipient": {"$isNull": true}}]'::jsonb;
    end if;
    return case when v_senders is null then '{}'
                else jsonb_build_object('$and', jsonb_build_array(
                    jsonb_build_object('$or', v_senders))) end
        || case when v_addressed = '[]' then '{}'
                else jsonb_build_object('$or', v_addressed) end;
end
$$;
comment on function pgq.entity_filter(text[], text[], boolean, text[], text[]) is
    'A filter document from lists of senders and recipients; each type is exact (default) or '
    'regex. '
    'A sender of the list and, if given, a recipient of the list or (broadcast) none at all. '
    'Without recipients and broadcast any recipient will do.';
revoke all on function pgq.entity_filter(text[], text[], boolean, text[], text[]) from public;

-- sql/30_queue/entity_test.sql

-- The alternatives for one field; null for no list.
create function pgq._entity_test(field text, patterns text[], types text[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tests jsonb := '[]';
begin
    if cardinality(types) is distinct from cardinality(patterns) and types is not null then
        raise exception 'a list of patterns and the list of their types differ in length'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give one type, exact or regex, for each pattern; or none for all exact.';
    end if;
    if patterns is null or patterns = '{}' then
        return null;
    end if;
    if array_position(patterns, null) is not null then
        raise exception 'a list of patterns must not contain null'
            using errcode = 'invalid_parameter_value',
                  hint = 'For messages to everybody use broadcast_filter => true.';
    end if;
    for i in 1 .. cardinality(patterns) loop
        v_tests := v_tests || case coalesce(types[i], 'exact')
            when 'exact' then jsonb_build_object(field, patterns[i])
            when 'regex' then jsonb_build_object(field, jsonb_build_object('$regex', patterns[i]))
        end;
        if v_tests is null then
            raise exception 'unknown filter type "%"', types[i]
                using errcode = 'invalid_parameter_value', hint = 'Use exact or regex.';
        end if;
    end loop;
    return v_tests;
end
$$;
comment on function pgq._entity_test(text, text[], text[]) is 'The alternatives for one field.';
revoke all on function pgq._entity_test(text, text[], text[]) from public;

-- sql/30_queue/grant_queue.sql

-- Gives a role a right to a queue; false if it has it.
create function pgq.grant_queue(queue text, role name, "right" text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq._change_right(queue, role, grant_queue.right, true);
end
$$;
comment on function pgq.grant_queue(text, name, text) is
    'Gives a role and its members a right to a queue. publish: to publish to every topic that the '
    'queue receives. consume: to claim from it and to look at it. admin: both, and to alter, '
    'pause, subscribe, replay, discard and drop it. The role also gets the privileges that it '
    'needs to call the functions of that right. False if it has the right.';
revoke all on function pgq.grant_queue(text, name, text) from public;

-- sql/30_queue/lock_rights.sql

-- Changes of rights wait for each other: PostgreSQL itself fails when two sessions change the
-- privileges of one object at once.
create function pgq._lock_rights() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._take_turn('right');
end
$$;
comment on function pgq._lock_rights() is 'Lets changes of rights wait for each other.';
revoke all on function pgq._lock_rights() from public;

-- sql/30_queue/pattern_regex.sql

-- The regular expression of a topic pattern, null for a plain topic; raises for a bad pattern.
create function pgq._pattern_regex(pattern text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if pattern is null or pattern !~ '[*#]' then
        perform pgq._check_topic(pattern);
        return null;
    end if;
    -- A pattern is no filter, and neither is its error.
    if length(pattern) > 255 or pattern !~
        E'^([^[:space:][:cntrl:].*#]+|[*#])(\\.([^[:space:][:cntrl:].*#]+|[*#]))*$'
    then
        raise exception 'invalid topic pattern "%"', left(pattern, 80)
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words separated by single dots, at most 255 characters. A wildcard '
                      'is a whole word: * for one, # for any number, as in orders.* or orders.#.';
    end if;
    return pgq._topic_regex(pattern);
end
$$;
comment on function pgq._pattern_regex(text) is
    'The regular expression of a topic pattern; null for a plain topic.';
revoke all on function pgq._pattern_regex(text) from public;

-- sql/30_queue/pause.sql

-- Claims return nothing until resume; false if the queue was paused already.
create function pgq.pause(
    name text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', pause.name);
begin
    update pgq.queue q set paused = true where q.queue_id = v_queue.queue_id and not q.paused;
    return found;
end
$$;
comment on function pgq.pause(text, pgq.caller) is
    'Stops delivery: claims return nothing until resume. Publishing and acknowledging go on. '
    'False if the queue was paused already.';
revoke all on function pgq.pause(text, pgq.caller) from public;

-- sql/30_queue/require_pattern.sql

-- Raises 42501 unless the caller, who is not the owner, administers a queue that receives all of
-- what the pattern stands for: a subscription must bring nobody what it could not have before,
-- neither messages to read nor topics to publish to.
create function pgq._require_pattern(caller name, pattern text, regex text)
returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq.queue_right r
        join pgq.binding b on b.queue_id = r.queue_id
        where r.right = 'admin' and pg_has_role(_require_pattern.caller, r.role, 'usage')
          and b.path is null
          and (b.pattern = _require_pattern.pattern
               or (_require_pattern.regex is null and _require_pattern.pattern ~ b.regex)))
    then
        raise exception 'permission denied for topic "%"', pattern
            using errcode = 'insufficient_privilege',
                  hint = 'You can subscribe to what a queue that you administer receives without '
                      'a filter; the owner of pgq can subscribe your queue to anything.';
    end if;
end
$$;
comment on function pgq._require_pattern(name, text, text) is
    'Raises 42501 unless the caller administers a queue that receives what the pattern stands for.';
revoke all on function pgq._require_pattern(name, text, text) from public;

-- sql/30_queue/rerouted.sql

-- Bindings have changed: forget what publishing has learnt about topics.
create function pgq._rerouted() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Publishers compare the version with the routes that they see: no lock is needed. The update
    -- makes changes of bindings wait for each other.
    update pgq.routing set version = version + 1;
    delete from pgq.route
    where ctid = any (array(
        select r.ctid from pgq.route r
        where r.version < (select version from pgq.routing)
        for update skip locked));
end
$$;
comment on function pgq._rerouted() is 'Makes publishing learn its routes again.';
revoke all on function pgq._rerouted() from public;

-- sql/30_queue/resume.sql

-- Delivery goes on; false if the queue was not paused.
create function pgq.resume(
    name text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', resume.name);
begin
    update pgq.queue q set paused = false where q.queue_id = v_queue.queue_id and q.paused;
    if not found then
        return false;
    end if;
    perform pgq._wake(v_queue.queue_id);
    return true;
end
$$;
comment on function pgq.resume(text, pgq.caller) is
    'Lets a paused queue deliver again. False if it was not paused.';
revoke all on function pgq.resume(text, pgq.caller) from public;

-- sql/30_queue/revoke_queue.sql

-- Takes a right to a queue away from a role; false if it does not have it.
create function pgq.revoke_queue(queue text, role name, "right" text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq._change_right(queue, role, revoke_queue.right, false);
end
$$;
comment on function pgq.revoke_queue(text, name, text) is
    'Takes a right to a queue away from a role, and the privileges that it needs no more. What it '
    'has by another right or as a member of another role it keeps. False if it does not have '
    'the right.';
revoke all on function pgq.revoke_queue(text, name, text) from public;

-- sql/30_queue/set_access.sql

-- Gives a role the privileges that its rights need, and takes away those that they do not.
create function pgq._set_access(role regrole) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name name;
    v_rights text[] := array(
        select distinct r.right from pgq.queue_right r where r.role = _set_access.role);
    v_any constant text[] := '{publish,consume,admin}';
    v_publish constant text[] := '{publish,admin}';
    v_consume constant text[] := '{consume,admin}';
    v_admin constant text[] := '{admin}';
    v_access record;
begin
    -- An old snapshot does not show all rights. A privilege that is left without one does nothing.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select a.rolname into v_name from pg_roles a where a.oid = _set_access.role;
    if not found then
        return;  -- dropped, and its privileges with it
    end if;
    for v_access in
        select p.privileges, p.rights && v_rights as needed
        from (values
            (v_any, 'usage on schema pgq'),
            (v_any, 'select on pgq.rights'),
            (v_any, 'execute on function pgq.version, pgq.now, pgq.matches, pgq.matches_topic, '
                'pgq.compile_filter, pgq.header_equals, pgq.header_in, pgq.header_not_equals, '
                'pgq.header_like, pgq.all_of, pgq.any_of, pgq.addressed_to, pgq.entity_filter'),
            (v_publish, 'execute on function pgq.publish, pgq.publish_batch, pgq.reply'),
            -- For INSERT and COPY. Not the id, the era, the time, the publisher: those are given.
            (v_publish, 'insert (topic, priority, headers, payload, sender, recipient, reply_to, '
                'correlation_id, group_key, dedup_key, deliver_at, expires_at) on pgq.message'),
            (v_publish, 'usage on sequence pgq.message_id'),
            (v_publish, 'select on sequence pgq.era_number'),
            (v_consume, 'execute on function pgq.claim, pgq.ack, pgq.nack, pgq.bury, pgq.extend, '
                'pgq.release, pgq.leased, pgq.peek, pgq.wait_begin, pgq.wait_end, pgq.signal, '
                'pgq.seen, pgq.explain_filter, pgq.history, pgq.replies, pgq._queue_stats, '
                'pgq.metrics, pgq._metrics, pgq.hold, pgq.named_lease, pgq.lease_slices, '
                'pgq.lease_parts, pgq.backlog, pgq.peek_slice, '
                'pgq.stream_begin, pgq.stream_claim, pgq.stream_batch, pgq.stream_finish, '
                'pgq.stream_end, pgq.relay_report'),
            (v_consume, 'select on pgq.queue_stats, pgq.message_state, pgq.dead_letter, '
                'pgq.leased_message, pgq.subscription, pgq.filter_stats, pgq.relays, '
                'pgq._visible_queue, pgq._metric'),
            (v_admin, 'execute on function pgq.alter_queue, pgq.drop_queue, pgq.pause, pgq.resume, '
                'pgq.subscribe, pgq.unsubscribe, pgq.unsubscribe_all, pgq.alter_subscription, '
                'pgq.replay, pgq.discard')
        ) p (rights, privileges)
    loop
        execute format(
            case when v_access.needed then 'grant %s to %I' else 'revoke %s from %I' end,
            v_access.privileges, v_name);
    end loop;
end
$$;
comment on function pgq._set_access(regrole) is
    'Gives a role the privileges that its rights need, and no others.';
revoke all on function pgq._set_access(regrole) from public;

-- sql/30_queue/subscribe.sql

-- Adds a binding to the queue named subscriber, which is made if new; false if it was there.
create function pgq.subscribe(
    subscriber text,
    pattern text,
    filter jsonb default null,
    since timestamptz default null,
    since_id bigint default null,
    caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue;
    v_regex text := pgq._pattern_regex(pattern);
    v_filter pgq.filter;
    v_binding pgq.binding;
begin
    perform pgq._check_topic(subscriber);
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', subscriber);
        perform pgq._require_pattern(caller, pattern, v_regex);
    end if;
    if filter is not null and filter <> '{}' then
        v_filter := pgq._find_filter(filter, null);
    end if;
    if since is not null or since_id is not null then
        -- Waits for publishers in flight, who do not know the binding yet, and holds up new ones:
        -- what is in the log then, and only that, has to be added by hand.
        lock table pgq.message in share row exclusive mode;
    end if;
    insert into pgq.queue (name) values (subscriber)
    on conflict on constraint queue_name_unique do nothing;
    v_queue := pgq._queue(subscriber);

    insert into pgq.binding (queue_id, pattern, regex, filter, scope, path)
    values (v_queue.queue_id, subscribe.pattern, v_regex, v_filter.document, v_filter.scope,
            v_filter.path)
    on conflict on constraint binding_queue_pattern_unique do nothing
    returning * into v_binding;
    if v_binding.binding_id is null then
        select b.* into v_binding from pgq.binding b
        where b.queue_id = v_queue.queue_id and b.pattern = subscribe.pattern;
        if v_binding.filter is distinct from v_filter.document then
            raise notice '"%" is subscribed to "%" with another filter', subscriber, pattern
                using hint = 'Change it with pgq.alter_subscription.';
        end if;
        return false;
    end if;
    perform pgq._rerouted();
    if since is not null or since_id is not null then
        perform pgq._backfill(v_queue, v_binding, since, since_id);
    end if;
    return true;
end
$$;
comment on function pgq.subscribe(text, text, jsonb, timestamptz, bigint, pgq.caller) is
    'Lets the queue named subscriber (made if new) receive the topics that match the pattern: '
    'words separated by dots, * is one word, # is any number of words. A filter is evaluated once, '
    'when a message is published. Starts with the next message, or with what the log still has '
    'since a time or a message id; publishing waits while those are added. False if the '
    'subscription is there already.';
revoke all on function pgq.subscribe(text, text, jsonb, timestamptz, bigint, pgq.caller)
    from public;

-- sql/30_queue/sweep_queue.sql

-- Removes all that belonged to a dropped queue.
create function pgq._sweep_queue(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.ready r where r.queue_id = _sweep_queue.queue_id;
    delete from pgq.scheduled s where s.queue_id = _sweep_queue.queue_id;
    delete from pgq.lease l where l.queue_id = _sweep_queue.queue_id;
    delete from pgq.dead_letter d where d.queue_id = _sweep_queue.queue_id;
    delete from pgq.group_head g where g.queue_id = _sweep_queue.queue_id;
    delete from pgq.group_line g where g.queue_id = _sweep_queue.queue_id;
    delete from pgq.group_stall g where g.queue_id = _sweep_queue.queue_id;
    delete from pgq.relay r where r.queue_id = _sweep_queue.queue_id;
    delete from pgq.stream s where s.queue_id = _sweep_queue.queue_id;
    delete from pgq.waiter w where w.queue_id = _sweep_queue.queue_id;
    delete from pgq.outcome o where o.queue_id = _sweep_queue.queue_id;
    delete from pgq.lane l where l.queue_id = _sweep_queue.queue_id;
end
$$;
comment on function pgq._sweep_queue(int) is 'Removes all that belonged to a dropped queue.';
revoke all on function pgq._sweep_queue(int) from public;

-- sql/30_queue/sweep_rights.sql

-- Forgets the rights of roles that were dropped, or deprived of everything by DROP OWNED.
create function pgq._sweep_rights() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.queue_right r
    where not exists (
        select from pg_namespace n cross join lateral aclexplode(n.nspacl) a
        where n.nspname = 'pgq' and a.grantee = r.role and a.privilege_type = 'USAGE');
end
$$;
comment on function pgq._sweep_rights() is 'Forgets the rights of roles that cannot use them.';
revoke all on function pgq._sweep_rights() from public;

-- sql/30_queue/unsubscribe.sql

-- Removes a binding; false if it was not there.
create function pgq.unsubscribe(
    subscriber text, pattern text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', subscriber);
    end if;
    delete from pgq.binding b using pgq.queue q
    where q.name = subscriber and b.queue_id = q.queue_id and b.pattern = unsubscribe.pattern;
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq.unsubscribe(text, text, pgq.caller) is
    'Ends a subscription: what the queue has received stays in it. False if there was none.';
revoke all on function pgq.unsubscribe(text, text, pgq.caller) from public;

-- sql/30_queue/unsubscribe_all.sql

-- Removes all subscriptions of a queue; returns how many.
create function pgq.unsubscribe_all(
    subscriber text, caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', subscriber);
    end if;
    -- The topic of its own name is what makes it a queue: only drop_queue ends that.
    delete from pgq.binding b using pgq.queue q
    where q.name = subscriber and b.queue_id = q.queue_id and b.counted;
    get diagnostics v_count = row_count;
    if v_count > 0 then
        perform pgq._rerouted();
    end if;
    return v_count;
end
$$;
comment on function pgq.unsubscribe_all(text, pgq.caller) is
    'Ends all subscriptions of a queue and returns how many there were.';
revoke all on function pgq.unsubscribe_all(text, pgq.caller) from public;

-- sql/40_publish/dedup.sql

-- True if this message is the first of its topic with the key, within the window.
create function pgq._first_of_key(topic text, dedup_key text, message_id bigint)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_window interval;
    v_now timestamptz := pgq.now();
begin
    select r.dedup_window into v_window from pgq.route r
    where r.topic = _first_of_key.topic and r.version = (select s.version from pgq.routing s)
    limit 1;
    if not found then
        select r.dedup_window into v_window from pgq._learn_route(topic) r;
    end if;
    -- Waits for another transaction that publishes the key, until it is known who was first.
    insert into pgq.dedup as d (topic, dedup_key, message_id, until)
    values (_first_of_key.topic, _first_of_key.dedup_key, _first_of_key.message_id,
            v_now + v_window)
    on conflict on constraint dedup_pkey do update
    set message_id = excluded.message_id, until = excluded.until
    where d.until <= v_now or d.message_id = excluded.message_id;
    return found;
end
$$;
comment on function pgq._first_of_key(text, text, bigint) is
    'True if the message is the first of its topic with this dedup key.';
revoke all on function pgq._first_of_key(text, text, bigint) from public;

-- sql/40_publish/discard_staged.sql

-- Forgets what was staged under these tokens.
create function pgq.discard_staged(tokens uuid[]) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_count bigint;
begin
    delete from pgq.staged s where s.token = any (tokens);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
comment on function pgq.discard_staged(uuid[]) is
    'Forgets the messages that were staged under these tokens. Returns how many.';
revoke all on function pgq.discard_staged(uuid[]) from public;

-- sql/40_publish/empty_staged.sql

-- Empties the staging table at once, if nothing but these tokens is in it and nobody else is using
-- it: to delete a million rows takes a fifth of the time of publishing them.
create function pgq._empty_staged(tokens uuid[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_token uuid := '00000000-0000-0000-0000-000000000000';
begin
    -- An old snapshot does not show what others have staged since.
    if current_setting('transaction_isolation') <> 'read committed' then
        return false;
    end if;
    lock table pgq.staged in access exclusive mode nowait;
    loop
        select s.token into v_token from pgq.staged s
        where s.token > v_token order by s.token limit 1;
        exit when not found;
        if v_token <> all (tokens) then
            return false;
        end if;
    end loop;
    truncate pgq.staged;
    return true;
exception
    when lock_not_available then
        return false;
end
$$;
comment on function pgq._empty_staged(uuid[]) is
    'Empties the staging table, if nothing but these tokens is in it.';
revoke all on function pgq._empty_staged(uuid[]) from public;

-- sql/40_publish/key_owner.sql

-- The message that has the dedup key: this one if it is the first, else the one that was.
create function pgq._key_owner(topic text, dedup_key text, message_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_first bigint;
begin
    while not pgq._first_of_key(topic, dedup_key, message_id) loop
        select d.message_id into v_first from pgq.dedup d
        where d.topic = _key_owner.topic and d.dedup_key = _key_owner.dedup_key;
        if found then
            return v_first;
        end if;
        -- Its time has passed, and it was forgotten meanwhile.
    end loop;
    return message_id;
end
$$;
comment on function pgq._key_owner(text, text, bigint) is 'The message that has the dedup key.';
revoke all on function pgq._key_owner(text, text, bigint) from public;

-- sql/40_publish/learn_route.sql

-- Finds out who receives a topic and remembers it; QU005 if nobody does.
create function pgq._learn_route(topic text) returns pgq.route
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route;
begin
    perform pgq._check_topic(topic);
    -- One snapshot for all of it: an answer must not carry a later version than its bindings.
    select _learn_route.topic, min(r.version),
           coalesce(array_agg(b.queue_id) filter (where b.plain and b.mode = 'queue'), '{}'),
           coalesce(array_agg(b.binding_id) filter (where not b.plain and b.mode = 'queue'), '{}'),
           max(b.dedup_window)
    into v_route
    from pgq.routing r
    join (
        select c.binding_id, c.queue_id, q.mode, q.dedup_window,
               c.path is null and q.lane_keys is null
               and not bool_or(c.counted) over (partition by c.queue_id) as plain,
               -- A binding without a filter makes the queue's others superfluous, but they count.
               c.counted or not bool_or(c.path is null) over (partition by c.queue_id)
               or row_number() over (partition by c.queue_id order by c.path is not null) = 1
                   as needed
        from pgq.binding c join pgq.queue q on q.queue_id = c.queue_id
        where (c.regex is null and c.pattern = topic) or topic ~ c.regex
    ) b on b.needed;
    if v_route.version is null then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = 'Create one with pgq.create_queue(name) or pgq.subscribe(name, pattern).';
    end if;
    insert into pgq.route values (v_route.*);
    return v_route;
end
$$;
comment on function pgq._learn_route(text) is 'Who receives a topic, or QU005.';
revoke all on function pgq._learn_route(text) from public;

-- sql/40_publish/publish.sql

-- Publishes one message and returns its id.
create function pgq.publish(
    topic text,
    payload jsonb,
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
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := nextval('pgq.message_id');
    v_first bigint;
    v_publisher text;
begin
    -- Most messages need nothing special and go to known queues. The trigger that routes what comes
    -- into the log would cost as much again as both rows: these are written here, that of the log
    -- straight into its slot, where no trigger is. What turns out to be special goes the long way,
    -- and sessions that mostly publish such messages do not try.
    if num_nonnulls(topic, payload) = 2 and priority between -1000 and 1000
       and num_nonnulls(delay, expires_in, group_key, dedup_key) = 0
       and jsonb_typeof(headers) = 'object' and not headers ? 'route'
       and not headers @? '$.*.type() ? (@ == "array" || @ == "object")'
       and current_setting('pgq.special', true) is distinct from 'on'
       and current_setting('transaction_isolation') = 'read committed'
    then
        if not pgq._is_owner(caller) then
            perform pgq._require_topic(caller, topic);
            v_publisher := caller::text;
        end if;
        insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
        select q.queue_id, pgq._rank(publish.priority, false, v_id), 0, 1, pg_current_xact_id(),
               false, int8multirange(int8range(v_id, v_id + 1))
        from (
            select unnest((
                select r.queue_ids from pgq.route r
                where r.topic = publish.topic and r.version = (select s.version from pgq.routing s)
                  and r.binding_ids = '{}' limit 1)) as queue_id  -- it may be known twice
        ) q
        where not exists (select from pgq.waiter) or pgq._wake(q.queue_id) is not null;
        if found then
            case pg_sequence_last_value('pgq.era_number') % 3
                when 0 then
                    insert into pgq.message_0 (
                        id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                        correlation_id, publisher)
                    values (v_id, 0, topic, priority, headers, payload, sender, recipient, reply_to,
                            correlation_id, v_publisher);
                when 1 then
                    insert into pgq.message_1 (
                        id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                        correlation_id, publisher)
                    values (v_id, 1, topic, priority, headers, payload, sender, recipient, reply_to,
                            correlation_id, v_publisher);
                else
                    insert into pgq.message_2 (
                        id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                        correlation_id, publisher)
                    values (v_id, 2, topic, priority, headers, payload, sender, recipient, reply_to,
                            correlation_id, v_publisher);
            end case;
            return v_id;
        end if;
    end if;

    if topic is null then
        perform pgq._check_topic(topic);
    end if;
    if not pgq._is_owner(caller) then
        -- The trigger asks for its rights; before that, a key would tell something.
        v_publisher := caller::text;
        if v_publisher is null or dedup_key is not null then
            perform pgq._require_topic(caller, topic);
        end if;
    end if;
    if payload is null or priority is null or priority not between -1000 and 1000
       or delay < interval '0' or expires_in <= interval '0'
    then
        perform pgq._refuse_publish(payload is null, priority, delay);
    end if;
    if dedup_key is not null then
        v_first := pgq._key_owner(topic, dedup_key, v_id);
        if v_first <> v_id then
            return v_first;
        end if;
    end if;
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, publisher)
    values (
        v_id, publish.topic, publish.priority, coalesce(publish.headers, '{}'), publish.payload,
        publish.sender, publish.recipient, publish.reply_to, publish.correlation_id,
        publish.group_key, publish.dedup_key, pgq.now() + publish.delay,
        pgq.now() + publish.expires_in, v_publisher);
    return v_id;
end
$$;
comment on function pgq.publish(
    text, jsonb, jsonb, int, interval, interval, text, text, text, text, text, text, pgq.caller) is
    'Publishes one message in the caller''s transaction and returns its id. With a dedup_key that '
    'was used within the queue''s window it returns the first message''s id and delivers nothing.';
revoke all on function pgq.publish(
    text, jsonb, jsonb, int, interval, interval, text, text, text, text, text, text, pgq.caller)
    from public;

-- sql/40_publish/publish_batch.sql

-- Publishes many messages in one statement; ids in the order given.
create function pgq.publish_batch(
    topic text,
    payloads jsonb[],
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
    caller pgq.caller default current_user
) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := cardinality(payloads);
    -- Computed once: messages that become due or expire together share their sets.
    v_now timestamptz := pgq.now();
    v_ids bigint[];
    v_firsts bigint[];
    v_key record;
    v_publisher text;
begin
    if topic is null then
        perform pgq._check_topic(topic);
    end if;
    if not pgq._is_owner(caller) then
        -- The trigger asks for its rights; before that, a key would tell something.
        v_publisher := caller::text;
        if v_publisher is null or dedup_keys is not null then
            perform pgq._require_topic(caller, topic);
        end if;
    end if;
    if v_count is null or v_count not between 1 and 100000 or array_ndims(payloads) <> 1 then
        raise exception 'a batch has 1 to 100000 payloads, not %', coalesce(v_count, 0)
            using errcode = 'invalid_parameter_value',
                  hint = 'Split larger batches, or COPY into pgq.message.';
    end if;
    if cardinality(headers) <> v_count or cardinality(dedup_keys) <> v_count then
        raise exception 'headers and dedup_keys need one element for each payload'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave them out, or use null for messages without.';
    end if;
    if array_position(payloads, null) is not null or priority is null
       or priority not between -1000 and 1000 or delay < interval '0'
       or expires_in <= interval '0'
    then
        perform pgq._refuse_publish(
            array_position(payloads, null) is not null, priority, delay);
    end if;
    if dedup_keys is not null then
        -- Each message has to know whether it is the first before it is written. Keys are taken
        -- in one order by everybody, so that two batches cannot wait for each other.
        v_ids := array(select nextval('pgq.message_id') from generate_series(1, v_count));
        v_firsts := v_ids;
        for v_key in
            select u.key, u.i from unnest(dedup_keys) with ordinality u (key, i)
            where u.key is not null order by u.key, u.i
        loop
            v_firsts[v_key.i] := pgq._key_owner(topic, v_key.key, v_ids[v_key.i]);
        end loop;
        insert into pgq.message (
            id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
            group_key, dedup_key, deliver_at, expires_at, publisher)
        select u.id, publish_batch.topic, publish_batch.priority, coalesce(u.header, '{}'),
               u.payload, publish_batch.sender, publish_batch.recipient, publish_batch.reply_to,
               publish_batch.correlation_id, publish_batch.group_key, u.key,
               v_now + publish_batch.delay, v_now + publish_batch.expires_in, v_publisher
        from unnest(v_ids, v_firsts, publish_batch.payloads, publish_batch.headers,
                    publish_batch.dedup_keys) u (id, first, payload, header, key)
        where u.id = u.first;
        return query select unnest(v_firsts);
        return;
    end if;
    return query
        insert into pgq.message (
            topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
            group_key, deliver_at, expires_at, publisher)
        select publish_batch.topic, publish_batch.priority, coalesce(u.header, '{}'), u.payload,
               publish_batch.sender, publish_batch.recipient, publish_batch.reply_to,
               publish_batch.correlation_id, publish_batch.group_key,
               v_now + publish_batch.delay, v_now + publish_batch.expires_in, v_publisher
        from unnest(publish_batch.payloads, publish_batch.headers) u (payload, header)
        returning id;
end
$$;
comment on function pgq.publish_batch(
    text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    pgq.caller) is
    'Publishes many messages of one topic in one statement, all or none, and returns their ids in '
    'the order given.';
revoke all on function pgq.publish_batch(
    text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    pgq.caller)
    from public;

-- sql/40_publish/publish_staged.sql

-- Publishes what was staged under these tokens, all of it or nothing; an epoch of a writer once.
create function pgq.publish_staged(
    tokens uuid[],
    size bigint default null,
    writer text default null,
    epoch bigint default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set work_mem = '64MB'
set jit = off
as $$
declare
    v_count bigint;
    v_epoch bigint;
    v_token uuid;
    v_size bigint;
    v_first int;
    v_last int;
begin
    if (writer is null) <> (epoch is null) then
        raise exception 'writer and epoch belong together'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give both, so that the same epoch is published once, or none of them.';
    end if;
    if writer is not null then
        insert into pgq.writer as w (writer, epoch, size, published_at)
        values (publish_staged.writer, publish_staged.epoch, 0, pgq.now())
        on conflict on constraint writer_pkey do update
        set epoch = excluded.epoch, published_at = excluded.published_at
        where w.epoch < excluded.epoch;
        if not found then
            select w.epoch into v_epoch from pgq.writer w where w.writer = publish_staged.writer;
            if epoch < v_epoch then
                raise exception 'writer "%" has published epoch % and now comes with %', writer,
                    v_epoch, epoch
                    using errcode = 'object_not_in_prerequisite_state',
                          hint = 'A writer that begins anew, with a new checkpoint, needs a new '
                              'name.';
            end if;
            delete from pgq.staged s where s.token = any (tokens);
            return 0::bigint;
        end if;
    end if;
    -- Read by the index, which has them in order: sorting a million messages takes longer than
    -- publishing them.
    v_count := 0::bigint;
    foreach v_token in array tokens loop
        -- Whoever publishes the token too waits here, and then finds nothing.
        perform from pgq.staged s where s.token = v_token order by s.position limit 1 for update;
        select coalesce(min(s.position), 0), coalesce(max(s.position), -1) into v_first, v_last
        from pgq.staged s where s.token = v_token;
        -- In portions that the route trigger can keep in memory.
        for v_low in v_first .. v_last by 50000 loop
            insert into pgq.message (
                topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
                group_key, dedup_key, deliver_at, expires_at)
            select s.topic, s.priority, s.headers, s.payload, s.sender, s.recipient, s.reply_to,
                   s.correlation_id, s.group_key, s.dedup_key, s.deliver_at, s.expires_at
            from pgq.staged s
            where s.token = v_token and s.position >= v_low and s.position < v_low + 50000::bigint
            order by s.position;
            get diagnostics v_size = row_count;
            v_count := v_count + v_size;
        end loop;
    end loop;
    if v_count <> size then
        raise exception 'only % of % messages are staged', v_count, size
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'The server was restarted after a crash, or they were staged more than a '
                      'day ago. Stage them again.';
    end if;
    update pgq.writer w set size = v_count where w.writer = publish_staged.writer;
    if v_count < 10000 or not pgq._empty_staged(tokens) then
        delete from pgq.staged s where s.token = any (tokens);
        get diagnostics v_size = row_count;
        if v_size <> v_count then
            raise exception 'messages were staged under these tokens while they were published'
                using errcode = 'serialization_failure',
                      hint = 'A token belongs to one attempt of one writer.';
        end if;
    end if;
    return v_count;
end
$$;
comment on function pgq.publish_staged(uuid[], bigint, text, bigint) is
    'Publishes the messages that were put into pgq.staged under these tokens, in one transaction, '
    'token after token in their order. Returns how many. With size it fails unless there are that '
    'many (55000). With a writer and an epoch it is done once: the epoch that the writer has '
    'published last publishes nothing and returns 0; an older one is refused (55000).';
revoke all on function pgq.publish_staged(uuid[], bigint, text, bigint) from public;

-- sql/40_publish/refuse_message.sql

-- Says what is wrong with an inserted message, if anything is.
create function pgq._refuse_message(priority int, headers jsonb) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if priority not between -1000 and 1000 then
        perform pgq._refuse_publish(false, priority, null);
    elsif jsonb_typeof(headers) <> 'object'
          or headers @? '$.*.type() ? (@ == "array" || @ == "object")'
    then
        raise exception 'headers must be an object of scalars'
            using errcode = 'invalid_parameter_value',
                  hint = 'Put nested values into the payload; filters can look there too.';
    end if;
end
$$;
comment on function pgq._refuse_message(int, jsonb) is
    'Says what is wrong with an inserted message, if anything is.';
revoke all on function pgq._refuse_message(int, jsonb) from public;

-- sql/40_publish/refuse_publish.sql

-- Says what is wrong with the arguments of publish or publish_batch.
create function pgq._refuse_publish(
    no_payload boolean, priority int, delay interval
) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if no_payload then
        raise exception 'a message needs a payload'
            using errcode = 'null_value_not_allowed',
                  hint = 'For a message without content use ''null''::jsonb or ''{}''.';
    elsif priority is null or priority not between -1000 and 1000 then
        raise exception 'priority % is out of range', coalesce(priority::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use -1000 to 1000; higher is delivered first, 0 is usual.';
    elsif delay < interval '0' then
        raise exception 'delay must not be negative'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out to deliver at once.';
    else
        raise exception 'expires_in must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for a message that does not expire.';
    end if;
end
$$;
comment on function pgq._refuse_publish(boolean, int, interval) is
    'Says what is wrong with the arguments of publish.';
revoke all on function pgq._refuse_publish(boolean, int, interval) from public;

-- sql/40_publish/reply.sql

-- Publishes the answer to a message, where its sender awaits it.
create function pgq.reply(
    message_id bigint, payload jsonb, headers jsonb default '{}', sender text default null,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_question pgq.message;
    v_queues int[] := pgq._visible_queues(caller);
begin
    select m.* into v_question from pgq.message m where m.id = reply.message_id;
    -- To others than its consumers it is as if it were not there.
    if not found or (v_queues is not null and not pgq._is_received(v_queues, v_question)) then
        raise exception 'message % is not in the log', coalesce(message_id::text, 'null')
            using errcode = 'no_data_found',
                  hint = 'Answer while you hold it, or within the queue''s retention.';
    end if;
    if v_question.reply_to is null then
        raise exception 'message % wants no reply', message_id
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'A question is published with reply_to, the topic for its answer.';
    end if;
    return pgq.publish(
        topic => v_question.reply_to, payload => reply.payload, headers => reply.headers,
        sender => coalesce(reply.sender, v_question.recipient), recipient => v_question.sender,
        correlation_id => coalesce(v_question.correlation_id, reply.message_id::text),
        caller => reply.caller);
end
$$;
comment on function pgq.reply(bigint, jsonb, jsonb, text, pgq.caller) is
    'Publishes an answer to the reply_to topic of a message, addressed to its sender, with its '
    'correlation_id (or its id, if it has none). Returns the id of the answer.';
revoke all on function pgq.reply(bigint, jsonb, jsonb, text, pgq.caller) from public;

-- sql/40_publish/route.sql

-- The one way into every queue: routes the messages of an INSERT or COPY.
create function pgq._route() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_message record;
    v_batch record;
    v_key record;
    v_topics text[];
    v_topic text;
    v_sizes int[];
    v_sorted bigint[];
    v_ids bigint[];
    v_version bigint;
    v_queue_ids int[];
    v_binding_ids int[];
    v_laned_ids int[];
    v_waited boolean;
    v_old boolean;
    v_match record;
    v_queue pgq.queue;
    v_binding record;
    v_group record;
    v_doubles bigint[] := '{}';
    v_matches bigint;
    v_done int := 0;
    v_special text;
    v_grouped_ids bigint[] := '{}';
    v_grouped_queues int[] := '{}';
begin
    -- One message, or the first of many, with what is known of its topic, in one go.
    select n.id, n.topic, n.priority, n.headers, n.group_key, n.dedup_key, n.expires_at,
           case when n.deliver_at > v_now then n.deliver_at end as due_at, n.publisher,
           exists (select from new_message offset 1) as many,
           n.priority not between -1000 and 1000 or jsonb_typeof(n.headers) <> 'object'
           or n.headers @? '$.*.type() ? (@ == "array" || @ == "object")' as refused,
           r.queue_ids, r.binding_ids, r.version, exists (select from pgq.waiter) as waited
    into v_message
    from new_message n
    left join pgq.route r
        on r.topic = n.topic and r.version = (select s.version from pgq.routing s)
    limit 1;
    if not found then
        return null;
    end if;
    -- First of all, because what follows tells who receives the topic, or that nobody does. Who
    -- inserts by itself is the publisher of all messages; here current_user is the owner.
    if v_message.publisher <> current_user and not pgq._is_owner(v_message.publisher) then
        perform pgq._require_topic(v_message.publisher, t.topic)
        from (select distinct n.topic from new_message n) t;
    end if;
    if v_message.refused then
        perform pgq._refuse_message(v_message.priority, v_message.headers);
    end if;
    if v_message.many then
        -- One look at each message, for all that most batches have nothing of. Those that are alike
        -- and stand together need no second one to be sorted into sets.
        select min(n.topic) as first, max(n.topic) as last,
               bool_or(n.dedup_key is not null) as keyed, bool_or(n.headers ? 'route') as suggested,
               min(n.priority) < -1000 or max(n.priority) > 1000 as refused,
               coalesce(bool_or(n.deliver_at = 'infinity'), false) as stored,
               min(n.id) as low, max(n.id) as high, min(n.priority) as priority,
               min(n.topic) = max(n.topic) and min(n.priority) = max(n.priority)
               and max(n.id) - min(n.id) + 1 = count(*)
               and not bool_or(n.dedup_key is not null or n.deliver_at is not null
                               or n.expires_at is not null or n.group_key is not null) as alike
        into v_batch
        from new_message n;
        -- Headers repeat, and comparing them is cheaper than looking into them.
        perform pgq._refuse_message(0, h.headers)
        from (select n.headers from new_message n group by n.headers offset 0) h
        where jsonb_typeof(h.headers) <> 'object'
           or h.headers @? '$.*.type() ? (@ == "array" || @ == "object")';
        if v_batch.refused then
            perform pgq._refuse_message(n.priority, n.headers) from new_message n;
        end if;
    end if;

    -- What is only to be stored was put here by pgq itself, or by somebody who wants no delivery.
    if v_message.due_at = 'infinity' and not v_message.many then
        return null;
    end if;

    v_old := current_setting('transaction_isolation') <> 'read committed';
    if v_old then
        perform pgq._refuse_old_routing();
    end if;

    -- One message has a path of its own: what publish() does not write itself is mostly of this
    -- kind, and each statement that is not run is a good part of its cost.
    if not v_message.many then
        if v_message.dedup_key is not null
           and not pgq._first_of_key(v_message.topic, v_message.dedup_key, v_message.id)
        then
            return null;
        end if;
        v_queue_ids := v_message.queue_ids;
        v_binding_ids := v_message.binding_ids;
        v_version := v_message.version;
        v_waited := v_old or v_message.waited;
        if v_message.dedup_key is not null then
            v_version := null;  -- to wait for the key's owner may have taken a while
        end if;
        loop
            if v_version is null then
                select r.queue_ids, r.binding_ids, r.version, true
                into v_queue_ids, v_binding_ids, v_version, v_waited
                from pgq.route r
                where r.topic = v_message.topic
                  and r.version = (select s.version from pgq.routing s)
                limit 1;
                if not found then
                    select r.queue_ids, r.binding_ids, r.version, true
                    into v_queue_ids, v_binding_ids, v_version, v_waited
                    from pgq._learn_route(v_message.topic) r;
                end if;
            end if;
            exit when v_binding_ids = '{}';
            select array_agg(distinct b.queue_id) filter (where q.lane_keys is null) as plain,
                   array_agg(distinct b.queue_id) filter (where q.lane_keys is not null) as laned,
                   array_agg(b.binding_id) filter (where b.counted) as counted,
                   (select s.version from pgq.routing s) as version
            into v_match
            from new_message n
            cross join pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
            where b.binding_id = any (v_binding_ids)
              and pgq._test_filter(
                  b.path, b.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                  n.recipient, n.reply_to, n.correlation_id, n.group_key, 1, n.published_at,
                  n.expires_at, n.id, v_now);
            -- Bindings that have changed since the route was read are not those of the route: one
            -- that has taken the place of another would be missed.
            if v_match.version <> v_version then
                v_version := null;
                continue;
            end if;
            v_queue_ids := v_queue_ids || v_match.plain;
            v_laned_ids := v_match.laned;
            if v_match.counted is not null then
                insert into pgq.binding_hit (binding_id, matches, last_at)
                select c, 1, v_now from unnest(v_match.counted) c;
            end if;
            exit;
        end loop;
        if v_message.group_key is not null then
            for v_queue in
                select q.* from pgq.queue q
                where q.queue_id = any (v_queue_ids || v_laned_ids) order by q.queue_id
            loop
                perform pgq._admit_heads(
                    v_queue, pgq._join_groups(v_queue.queue_id, array[v_message.id], null), null,
                    v_now);
            end loop;
        elsif v_message.due_at is not null then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            select q.queue_id, v_message.due_at, 0, 1,
                   int8multirange(int8range(v_message.id, v_message.id + 1))
            from unnest(v_queue_ids || v_laned_ids) q (queue_id);
        else
            insert into pgq.ready (
                queue_id, rank, attempt, size, xid, expires_at, grouped, ids)
            select q.queue_id, pgq._rank(v_message.priority, false, v_message.id), 0, 1,
                   pg_current_xact_id(), v_message.expires_at, false,
                   int8multirange(int8range(v_message.id, v_message.id + 1))
            from unnest(v_queue_ids) q (queue_id);
            if v_laned_ids is not null then
                insert into pgq.ready (
                    queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, ids)
                select q.queue_id,
                       pgq._lane(q.queue_id, q.lane_keys, q.lanes_full,
                                 pgq._lane_label(v_message.headers, q.lane_keys)),
                       pgq._rank(v_message.priority, false, v_message.id), 0, 1,
                       pg_current_xact_id(), v_message.expires_at, false,
                       int8multirange(int8range(v_message.id, v_message.id + 1))
                from pgq.queue q where q.queue_id = any (v_laned_ids);
            end if;
        end if;
        v_special := case when v_binding_ids = '{}' and v_message.group_key is null
                          and v_message.dedup_key is null and v_message.due_at is null
                          then '' else 'on' end;
        if v_special is distinct from current_setting('pgq.special', true) then
            v_special := set_config('pgq.special', v_special, false);
        end if;
        if v_waited then
            perform pgq._wake(q) from unnest(v_queue_ids || v_laned_ids) q;
        end if;
        if v_message.headers ? 'route' then
            perform pgq._suggest(v_message.id, v_queue_ids || v_laned_ids);
        end if;
        return null;
    end if;

    -- Keys are taken in one order by everybody, so that two batches cannot wait for each other.
    if v_batch.keyed then
        for v_key in
            select n.id, n.topic, n.dedup_key from new_message n
            where n.dedup_key is not null and n.deliver_at is distinct from 'infinity'
            order by n.topic, n.dedup_key, n.id
        loop
            if not pgq._first_of_key(v_key.topic, v_key.dedup_key, v_key.id) then
                v_doubles := v_doubles || v_key.id;
            end if;
        end loop;
    end if;

    v_topics := array[v_batch.first];
    if v_batch.alike then
        if v_message.binding_ids = '{}' then
            -- Most batches: one topic, whose queues are known and want all of it.
            perform pgq._add_range(q.queue_id, null, v_batch.priority, false, 0, null, null, false,
                                   v_batch.low, v_batch.high, q.set_size),
                    pgq._wake(q.queue_id)
            from pgq.queue q
            where q.queue_id = any (v_message.queue_ids)
              and v_message.version = (select s.version from pgq.routing s);
            if found then
                v_topics := '{}';
            end if;
        end if;
    elsif v_batch.first <> v_batch.last or v_batch.stored then
        v_topics := array(
            select distinct n.topic from new_message n
            where n.deliver_at is distinct from 'infinity' order by 1);
    end if;
    if cardinality(v_topics) > 16 then
        -- To look at all messages for each of many topics would take as long as that sounds: those
        -- of a topic are read by their ids.
        v_sizes := array(
            select count(*)::int from new_message n
            where n.deliver_at is distinct from 'infinity' group by n.topic order by n.topic);
        v_sorted := array(
            select n.id from new_message n
            where n.deliver_at is distinct from 'infinity' order by n.topic, n.id);
    end if;
    for i in 1 .. cardinality(v_topics) loop
        v_topic := v_topics[i];
        if v_sizes is not null then
            v_ids := v_sorted[v_done + 1 : v_done + v_sizes[i]];
            v_done := v_done + v_sizes[i];
        end if;
        <<topic>>
        loop
            select r.queue_ids, r.binding_ids, r.version
            into v_queue_ids, v_binding_ids, v_version
            from pgq.route r
            where r.topic = v_topic and r.version = (select s.version from pgq.routing s)
            limit 1;
            if not found then
                select r.queue_ids, r.binding_ids, r.version
                into v_queue_ids, v_binding_ids, v_version
                from pgq._learn_route(v_topic) r;
            end if;
            for v_binding in
                -- Headers repeat: a filter that none of them passes is done with at once.
                with h as materialized (
                    select distinct coalesce(n.headers, '{}') as headers
                    from new_message n where n.topic = v_topic
                )
                select q as queue, b.paths, b.scopes, b.counted, b.bindings,
                       (select s.version from pgq.routing s) as version
                from (
                    select c.queue_id,
                           case when bool_and(c.path is not null) then array_agg(c.path) end
                               as paths,
                           array_agg(c.scope) as scopes,
                           array_agg(c.binding_id) filter (where c.counted) as counted,
                           count(*) as bindings
                    from pgq.binding c
                    where c.binding_id = any (v_binding_ids)
                      and (c.path is null or c.scope <> 'headers' or v_ids is not null or exists (
                          select from h where jsonb_path_match(h.headers, c.path, '{}', true)))
                    group by c.queue_id
                    union all
                    select p.queue_id, null, null, null, 1 from unnest(v_queue_ids) p (queue_id)
                ) b
                join pgq.queue q on q.queue_id = b.queue_id
                order by q.queue_id
            loop
                -- Nothing has been done yet: all rows are of one snapshot.
                continue topic when v_binding.version <> v_version;
                v_queue := v_binding.queue;
                v_matches := 0;
                if v_batch.alike and v_binding.paths is null and v_queue.lane_keys is null then
                    perform pgq._add_range(
                        v_queue.queue_id, null, v_batch.priority, false, 0, null, null, false,
                        v_batch.low, v_batch.high, v_queue.set_size);
                    v_matches := v_batch.high - v_batch.low + 1;
                end if;
                for v_group in
                    select n.priority, n.expires_at,
                           case when n.deliver_at > v_now then n.deliver_at end as due_at,
                           case when v_queue.lane_keys is not null then
                               pgq._lane_label(n.headers, v_queue.lane_keys)
                           end as label,
                           n.group_key is not null as grouped,
                           array_agg(n.id order by n.id) as ids
                    from (
                        select x.* from new_message x
                        where v_matches = 0 and v_ids is null and x.topic = v_topic
                        union all
                        select m.* from unnest(v_ids) u (id) join pgq.message m on m.id = u.id
                    ) n
                    where n.deliver_at is distinct from 'infinity'
                      and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles))
                      and (v_binding.paths is null or exists (
                          select from unnest(v_binding.paths, v_binding.scopes) f (path, scope)
                          where pgq._test_filter(
                              f.path, f.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                              n.recipient, n.reply_to, n.correlation_id, n.group_key, 1,
                              n.published_at, n.expires_at, n.id, v_now)))
                    group by 1, 2, 3, 4, 5
                loop
                    v_matches := v_matches + cardinality(v_group.ids);
                    if v_group.grouped then
                        v_grouped_ids := v_grouped_ids || v_group.ids;
                        v_grouped_queues := v_grouped_queues
                            || array_fill(v_queue.queue_id, array[cardinality(v_group.ids)]);
                    elsif v_group.due_at is not null then
                        insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
                        values (v_queue.queue_id, v_group.due_at, 0, cardinality(v_group.ids),
                                pgq._set_of(v_group.ids));
                    else
                        perform pgq._add_ready(
                            v_queue.queue_id,
                            case when v_group.label is not null then
                                pgq._lane(v_queue.queue_id, v_queue.lane_keys, v_queue.lanes_full,
                                          v_group.label)
                            end,
                            v_group.priority, false, 0, v_group.expires_at, null, false,
                            v_group.ids, v_queue.set_size);
                    end if;
                end loop;
                continue when v_matches = 0;
                perform pgq._wake(v_queue.queue_id);
                if v_binding.bindings = 1 and v_binding.counted is not null then
                    insert into pgq.binding_hit (binding_id, matches, last_at)
                    values (v_binding.counted[1], v_matches, v_now);
                elsif v_binding.counted is not null then
                    insert into pgq.binding_hit (binding_id, matches, last_at)
                    select b.binding_id, count(*), v_now
                    from pgq.binding b
                    cross join (
                        select x.* from new_message x where v_ids is null and x.topic = v_topic
                        union all
                        select m.* from unnest(v_ids) u (id) join pgq.message m on m.id = u.id
                    ) n
                    where b.binding_id = any (v_binding.counted)
                      and n.deliver_at is distinct from 'infinity'
                      and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles))
                      and pgq._test_filter(
                          b.path, b.scope, n.headers, n.payload, n.topic, n.priority, n.sender,
                          n.recipient, n.reply_to, n.correlation_id, n.group_key, 1, n.published_at,
                          n.expires_at, n.id, v_now)
                    group by 1;
                end if;
            end loop;
            exit topic when found or v_version = (select s.version from pgq.routing s);
        end loop;
    end loop;
    -- Ordering groups last: the messages of all topics in the order of their ids; and queue after
    -- queue, so that two batches cannot wait for each other.
    if v_grouped_queues <> '{}' then
        for v_queue in
            select q.* from pgq.queue q
            where q.queue_id = any (v_grouped_queues) order by q.queue_id
        loop
            perform pgq._admit_heads(
                v_queue,
                pgq._join_groups(v_queue.queue_id, array(
                    select g.id from unnest(v_grouped_queues, v_grouped_ids) g (queue_id, id)
                    where g.queue_id = v_queue.queue_id), null),
                null, v_now);
        end loop;
    end if;
    if v_batch.suggested then
        perform pgq._suggest(n.id, null) from new_message n
        where n.headers ? 'route' and n.deliver_at is distinct from 'infinity'
          and (cardinality(v_doubles) = 0 or n.id <> all (v_doubles));
    end if;
    return null;
end
$$;
comment on function pgq._route() is
    'Routes the messages of an INSERT or COPY to the queues that receive them.';
revoke all on function pgq._route() from public;

create trigger route after insert on pgq.message
    referencing new table as new_message
    for each statement execute function pgq._route();
comment on trigger route on pgq.message is 'Any INSERT or COPY is a publish.';

-- sql/40_publish/suggest.sql

-- Honours the header "route": queues that accept suggestions and are named there, at most 8, get
-- the message too, unless they received it anyway. It comes from outside: what names no such
-- queue is passed over in silence.
create function pgq._suggest(message_id bigint, received int[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_message pgq.message;
    v_queue pgq.queue;
begin
    select m.* into strict v_message from pgq.message m where m.id = _suggest.message_id;
    for v_queue in
        select q.* from pgq.queue q
        where q.suggestions and q.mode = 'queue'
          and q.name = any (
              (string_to_array(
                  replace(left(v_message.headers ->> 'route', 2048), ' ', ''), ','))[1:8])
          and q.queue_id <> all (coalesce(received, '{}'))
          and not exists (
              select from pgq.binding b
              where b.queue_id = q.queue_id
                and (b.regex is null and b.pattern = v_message.topic or v_message.topic ~ b.regex)
                and pgq._test_filter(
                    b.path, b.scope, v_message.headers, v_message.payload, v_message.topic,
                    v_message.priority, v_message.sender, v_message.recipient,
                    v_message.reply_to, v_message.correlation_id, v_message.group_key, 1,
                    v_message.published_at, v_message.expires_at, v_message.id, v_now))
        order by q.queue_id
    loop
        if v_message.group_key is not null then
            perform pgq._admit_heads(
                v_queue, pgq._join_groups(v_queue.queue_id, array[v_message.id], null), null,
                v_now);
        elsif v_message.deliver_at > v_now then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            values (v_queue.queue_id, v_message.deliver_at, 0, 1,
                    int8multirange(int8range(v_message.id, v_message.id + 1)));
            perform pgq._wake(v_queue.queue_id);
        else
            perform pgq._enqueue(
                v_queue, int8multirange(int8range(v_message.id, v_message.id + 1)), 0, null,
                false, back => false);
        end if;
    end loop;
end
$$;
comment on function pgq._suggest(bigint, int[]) is
    'Delivers a message to queues that its header "route" suggests and that accept suggestions.';
revoke all on function pgq._suggest(bigint, int[]) from public;

-- sql/40_publish/writer_epoch.sql

-- The last epoch that a writer has published.
create function pgq.writer_epoch(writer text) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select w.epoch from pgq.writer w where w.writer = writer_epoch.writer);
end
$$;
comment on function pgq.writer_epoch(text) is
    'The last epoch that a writer has published with pgq.publish_staged; null: none.';
revoke all on function pgq.writer_epoch(text) from public;

-- sql/45_end/bury_set.sql

-- Copies messages into the dead letters. The caller takes them out of where they are, in the same
-- transaction: if this fails, they stay there.
create function pgq._bury_set(
    queue_id int, ids int8multirange, attempt int, reason text, error text, details jsonb,
    failures jsonb, holder text, client inet, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_replays jsonb := jsonb_path_query_array(
        coalesce(failures, '[]'), '$[*] ? (@.outcome == "replay").at');
    v_count int;
begin
    insert into pgq.dead_letter (
        queue_id, message_id, reason, error, details, attempts, failures, holder, client,
        failed_at, replay_count, replayed_at, topic, priority, headers, payload, sender,
        recipient, reply_to, correlation_id, group_key, dedup_key, deliver_at, expires_at,
        published_at)
    select _bury_set.queue_id, m.id, _bury_set.reason, _bury_set.error, _bury_set.details,
           _bury_set.attempt, coalesce(_bury_set.failures, '[]'), _bury_set.holder,
           _bury_set.client, now, jsonb_array_length(v_replays), (v_replays ->> -1)::timestamptz,
           m.topic, m.priority, m.headers, m.payload, m.sender, m.recipient, m.reply_to,
           m.correlation_id, m.group_key, m.dedup_key, m.deliver_at, m.expires_at, m.published_at
    from unnest(_bury_set.ids) r
    join pgq.message m on m.id >= lower(r) and m.id < upper(r);
    get diagnostics v_count = row_count;
    if v_count < pgq._set_size(_bury_set.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._bury_set(
    int, int8multirange, int, text, text, jsonb, jsonb, text, inet, timestamptz) is
    'Copies messages into the dead letters.';
revoke all on function pgq._bury_set(
    int, int8multirange, int, text, text, jsonb, jsonb, text, inet, timestamptz) from public;

-- sql/45_end/end_lease.sql

-- Takes messages out of a lease: all that it holds, or the given ids, or nothing and QU003.
create function pgq._end_lease(lease_id bigint, ids bigint[]) returns setof pgq.lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wanted int8multirange := case when ids is not null then pgq._set_of(ids) end;
    v_missing int8multirange := v_wanted;
    v_part pgq.lease;
    v_found boolean := false;
begin
    if v_wanted is null then
        return query delete from pgq.lease l where l.lease_id = _end_lease.lease_id returning l.*;
        if found then
            return;
        end if;
    elsif v_wanted = '{}' then
        return;
    end if;
    -- Waits for a transaction that is ending the same lease, and then sees what it has left.
    for v_part in
        select l.* from pgq.lease l
        where l.lease_id = _end_lease.lease_id order by l.part for update
    loop
        v_found := true;
        if v_part.ids <@ v_wanted then
            delete from pgq.lease l where l.lease_id = v_part.lease_id and l.part = v_part.part;
        elsif v_part.ids && v_wanted then
            update pgq.lease l
            set ids = l.ids - v_wanted, size = pgq._set_size(l.ids - v_wanted)
            where l.lease_id = v_part.lease_id and l.part = v_part.part;
            v_part.ids := v_part.ids * v_wanted;
            v_part.size := pgq._set_size(v_part.ids);
        else
            continue;
        end if;
        v_missing := v_missing - v_part.ids;
        return next v_part;
    end loop;
    if not v_found then
        perform pgq._lose_lease(lease_id);
    end if;
    if v_missing <> '{}' then
        raise exception 'lease % does not hold message %', lease_id, lower(v_missing)
            using errcode = 'QU003',
                  detail = format('Not held: %s.', v_missing),
                  hint = 'What was acknowledged, refused or buried has left the lease.';
    end if;
end
$$;
comment on function pgq._end_lease(bigint, bigint[]) is 'Takes messages out of a lease, or QU003.';
revoke all on function pgq._end_lease(bigint, bigint[]) from public;

-- sql/45_end/expire.sql

-- Ends messages whose time has passed, as their queue's policy says.
create function pgq._expire(
    queue pgq.queue, ids int8multirange, attempt int, failures jsonb, grouped boolean,
    now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue.on_expiry = 'dead_letter' then
        -- A failed dead-letter write must neither lose the messages nor stop the claim.
        begin
            perform pgq._bury_set(
                queue.queue_id, ids, attempt, 'expired', null, null, failures, null, null, now);
        exception
            when query_canceled or admin_shutdown or crash_shutdown then
                raise;
            when others then
                raise warning 'expired messages % could not become dead letters: %', ids, sqlerrm
                    using errcode = sqlstate,
                          hint = 'They are kept, and it is tried again in a minute.';
                insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
                values (queue.queue_id, now + interval '1 min', attempt, pgq._set_size(ids),
                        grouped, failures, ids);
                return;
        end;
    end if;
    insert into pgq.journal (at, queue_id, event, attempt, size, ids)
    values (now, queue.queue_id, 'expire', attempt, pgq._set_size(ids), ids);
    insert into pgq.outcome (queue_id, event, reason, size)
    values (queue.queue_id, 'expire', case queue.on_expiry when 'dead_letter' then 'expired' end,
            pgq._set_size(ids));
    if grouped and (queue.on_expiry = 'discard' or queue.on_dead = 'release') then
        perform pgq._advance_groups(queue, ids, now);
    end if;
end
$$;
comment on function pgq._expire(pgq.queue, int8multirange, int, jsonb, boolean, timestamptz) is
    'Ends messages whose time has passed.';
revoke all on function pgq._expire(pgq.queue, int8multirange, int, jsonb, boolean, timestamptz)
    from public;

-- sql/45_end/failure.sql

-- The failures of a message with one more at the end.
create function pgq._failure(
    failures jsonb, outcome text, attempt int, claimed_at timestamptz, holder text, client inet,
    error text, now timestamptz
) returns jsonb
language sql stable parallel safe
return coalesce(failures, '[]') || jsonb_strip_nulls(jsonb_build_object(
    'outcome', outcome, 'attempt', attempt, 'claimed_at', claimed_at, 'at', now,
    'holder', holder, 'client', host(client), 'error', left(error, 1000)));
comment on function pgq._failure(
    jsonb, text, int, timestamptz, text, inet, text, timestamptz) is
    'The failures of a message with one more at the end.';
revoke all on function pgq._failure(
    jsonb, text, int, timestamptz, text, inet, text, timestamptz) from public;

-- sql/45_end/retry.sql

-- What becomes of messages whose delivery failed: another attempt, or the dead letters.
-- A delay of null is the queue's backoff; no delay at all makes them ready at once.
create function pgq._retry(
    queue pgq.queue, ended pgq.lease, outcome text, delay interval, error text, details jsonb,
    now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_failures jsonb := pgq._failure(
        ended.failures, outcome, ended.attempt, ended.claimed_at, ended.holder, ended.client,
        error, now);
    v_delay interval := delay;
    v_reason text := case
        when outcome = 'bury' then 'rejected'
        when ended.attempt < queue.max_attempts then null
        when outcome = 'timeout' then 'timeout'
        when error is null then 'max_attempts'
        else 'processing_error'
    end;
begin
    insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                             client, error, ids)
    values (now, ended.queue_id, outcome, ended.attempt, ended.size, ended.lease_id,
            ended.claimed_at, ended.holder, ended.client, error, ended.ids);
    if queue.queue_id is null then
        return;  -- the queue was dropped, and its messages with it
    end if;
    insert into pgq.outcome (queue_id, event, reason, size)
    values (ended.queue_id, outcome, v_reason, ended.size);
    if v_reason is not null then
        perform pgq._bury_set(
            ended.queue_id, ended.ids, ended.attempt, v_reason, error, details, v_failures,
            ended.holder, ended.client, now);
        if ended.grouped and queue.on_dead = 'release' then
            perform pgq._advance_groups(queue, ended.ids, now);
        end if;
        return;
    end if;
    if v_delay is null then
        -- Doubles with every attempt; half of it is random, so that what failed together does
        -- not come back together.
        v_delay := make_interval(secs => least(
            extract(epoch from queue.max_backoff)::float8,
            extract(epoch from queue.backoff)::float8 * 2 ^ least(ended.attempt - 1, 62))
            * (0.5 + random() / 2));
    end if;
    if v_delay > interval '0' then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
        values (ended.queue_id, now + v_delay, ended.attempt, ended.size, ended.grouped,
                v_failures, ended.ids);
        perform pgq._wake(ended.queue_id);
    else
        perform pgq._enqueue(queue, ended.ids, ended.attempt, v_failures, ended.grouped);
    end if;
end
$$;
comment on function pgq._retry(
    pgq.queue, pgq.lease, text, interval, text, jsonb, timestamptz) is
    'What becomes of messages whose delivery failed.';
revoke all on function pgq._retry(
    pgq.queue, pgq.lease, text, interval, text, jsonb, timestamptz) from public;

-- sql/48_era/carry_forward.sql

-- Moves the unfinished messages of a slot into the current era, at most that many; returns how
-- many were moved. Moving changes the partition key only: ids, sets and leases stay as they are.
create function pgq._carry_forward(slot int, most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_low bigint;
    v_high bigint;
    v_range int8range;
    v_count int;
    v_moved int := 0;
begin
    select min(m.id), max(m.id) into v_low, v_high
    from pgq.message m where m.era = _carry_forward.slot;
    if v_low is null then
        return 0;
    end if;
    -- Range after range, each by the index: joined with all ranges at once the slot would be read
    -- from end to end for each of them, which takes minutes at the commit of a consumer.
    for v_range in
        select unnest(pgq._first_ids(
            pgq._unfinished(int8multirange(int8range(v_low, v_high + 1))), most))
    loop
        update pgq.message m
        set era = pg_sequence_last_value('pgq.era_number') % 3
        where m.era = _carry_forward.slot and m.id >= lower(v_range) and m.id < upper(v_range);
        get diagnostics v_count = row_count;
        v_moved := v_moved + v_count;
    end loop;
    return v_moved;
end
$$;
comment on function pgq._carry_forward(int, int) is
    'Moves unfinished messages of a slot into the current era.';
revoke all on function pgq._carry_forward(int, int) from public;

-- sql/48_era/empty_era.sql

-- Empties a slot at the end of a transaction that has asked for it. A claim may be part of a long
-- transaction: deferred, the lock lasts for the commit alone. Whatever happens here, the
-- transaction itself goes through.
create function pgq._empty_era() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_retention interval := pgq._log_retention();
    v_since timestamptz := (
        select e.started_at + v_retention from pgq.era e where e.number = new.number + 1);
begin
    if pgq._empty_slot(new.slot, pgq._era_patience(v_since, v_retention)) then
        update pgq.era e set emptied_at = pgq.now(), retry_at = null where e.slot = new.slot;
    end if;
    return null;
exception
    when query_canceled or admin_shutdown or crash_shutdown then
        raise;
    when others then
        raise warning 'slot % of the log could not be emptied: %', new.slot, sqlerrm
            using errcode = sqlstate, hint = 'It is tried again by later claims and by maintain().';
        return null;
end
$$;
comment on function pgq._empty_era() is 'Empties a slot of the log when a transaction commits.';
revoke all on function pgq._empty_era() from public;

do $$
begin
    if not exists (select from pg_catalog.pg_trigger
                   where tgrelid = 'pgq.era'::regclass and tgname = 'era_empty')
    then
        create constraint trigger era_empty after update of retry_at on pgq.era
            deferrable initially deferred
            for each row when (new.retry_at is not null and new.emptied_at is null)
            execute function pgq._empty_era();
    end if;
end
$$;
comment on trigger era_empty on pgq.era is 'Empties the slot when the transaction commits.';

-- sql/48_era/empty_slot.sql

-- Truncates a slot of the ring after its unfinished messages have been carried forward; false if
-- somebody is using it, or if too many are left to carry, so that it has to be tried again.
-- Patience is how long everybody else may have to wait because this waits for a lock.
create function pgq._empty_slot(slot int, patience interval) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = 0
as $$
begin
    -- Ends with the function, as what it has declared.
    perform set_config('lock_timeout', (extract(epoch from patience) * 1000)::int::text, true);
    -- Most of the work without a lock, then what is left of it with nobody looking.
    if pgq._carry_forward(slot, 100000) = 100000 then
        return false;
    end if;
    case slot
        when 0 then
            lock table only pgq.message_0, only pgq.journal_0 in access exclusive mode;
            perform pgq._carry_forward(slot, 2147483647);
            truncate pgq.message_0, pgq.journal_0;
        when 1 then
            lock table only pgq.message_1, only pgq.journal_1 in access exclusive mode;
            perform pgq._carry_forward(slot, 2147483647);
            truncate pgq.message_1, pgq.journal_1;
        when 2 then
            lock table only pgq.message_2, only pgq.journal_2 in access exclusive mode;
            perform pgq._carry_forward(slot, 2147483647);
            truncate pgq.message_2, pgq.journal_2;
    end case;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._empty_slot(int, interval) is
    'Truncates a slot of the ring after its unfinished messages have been carried forward.';
revoke all on function pgq._empty_slot(int, interval) from public;

-- sql/48_era/era_patience.sql

-- How long to wait for the lock on a slot that could have been emptied since then: everybody else
-- waits for as long. Where a short patience is always in vain, because claims are parts of longer
-- transactions, the log must not grow for ever. Well below deadlock_timeout, so that who waits for
-- this lock and holds another never ends as the victim of a deadlock.
create function pgq._era_patience(since timestamptz, retention interval)
returns interval
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return least(
        current_setting('deadlock_timeout')::interval / 3,
        interval '50 ms' * least(10, 1 + 10 * coalesce(
            greatest(date_part('epoch', pgq.now() - since), 0)
            / greatest(date_part('epoch', retention), 60), 0)));
end
$$;
comment on function pgq._era_patience(timestamptz, interval) is
    'How long to wait for the lock on a slot that has to be emptied.';
revoke all on function pgq._era_patience(timestamptz, interval) from public;

-- sql/48_era/log_retention.sql

-- How long the log keeps messages: as long as the queue that wants it longest, since it is shared.
create function pgq._log_retention() returns interval
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(max(q.retention), interval '1 day') from pgq.queue q);
end
$$;
comment on function pgq._log_retention() is 'How long the log keeps messages at least.';
revoke all on function pgq._log_retention() from public;

-- sql/48_era/turn_eras.sql

-- Asks for the slot to be emptied whose messages are past retention, and begins a new era when the
-- current one has lasted as long.
create function pgq._turn_eras(now timestamptz, emptying boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number bigint;
    v_retention interval := pgq._log_retention();
    v_started timestamptz;
    v_due smallint[] := '{}';
    v_over boolean;
begin
    -- An old snapshot does not see what has come back since (a replay), and would truncate it.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    -- First a look that locks nothing, where most calls end; then again with nobody else at it.
    for v_alone in 0 .. 1 loop
        v_number := pg_sequence_last_value('pgq.era_number');
        v_started := (select e.started_at from pgq.era e where e.number = v_number);
        -- An era's messages are old enough when the era after it is. Who archives them has a while
        -- longer for it.
        if emptying then
            -- One at a time: who holds one slot and waits for another ends in a deadlock with
            -- those who read the log.
            v_due := array(
                select e.slot from pgq.era e join pgq.era n on n.number = e.number + 1
                where e.number < v_number and e.emptied_at is null
                  and n.started_at + v_retention <= _turn_eras.now
                  and (e.archived_at is not null or not exists (
                      select from pgq.archive a
                      where n.started_at + v_retention + a.wait > _turn_eras.now))
                  and coalesce(e.retry_at, _turn_eras.now) <= _turn_eras.now
                order by e.number limit 1);
        end if;
        v_over := v_started + v_retention <= now
            and not exists (select from pgq.era e
                            where e.slot = (v_number + 1) % 3 and e.emptied_at is null)
            and exists (select from pgq.message m where m.era = v_number % 3);
        if v_started is not null and v_due = '{}' and not v_over then
            return;
        end if;
        if v_alone = 0 and not pgq._try_turn('era') then
            return;
        end if;
    end loop;

    if v_started is null then
        -- The first time, or the sequence moved in a transaction that was rolled back.
        insert into pgq.era as e (slot, number, started_at) values (v_number % 3, v_number, now)
        on conflict on constraint era_pkey do update
        set number = excluded.number, started_at = excluded.started_at, emptied_at = null,
            messages = null, checksum = null, archived_at = null;
        return;
    end if;
    if v_due <> '{}' then
        -- Its trigger empties the slot when the transaction commits, and not before: it locks it.
        -- Trying again must not take more than a twentieth of everybody's time.
        update pgq.era e set retry_at = _turn_eras.now + greatest(
            least(v_retention / 100, interval '10 s'),
            20 * pgq._era_patience(n.started_at + v_retention, v_retention))
        from pgq.era n
        where e.slot = any (v_due) and n.number = e.number + 1;
    end if;
    if v_over then
        insert into pgq.era as e (slot, number, started_at)
        values ((v_number + 1) % 3, v_number + 1, now)
        on conflict on constraint era_pkey do update
        set number = excluded.number, started_at = excluded.started_at, emptied_at = null,
            messages = null, checksum = null, archived_at = null;
        -- Last: a sequence does not come back when a transaction rolls back.
        perform setval('pgq.era_number', v_number + 1);
    end if;
end
$$;
comment on function pgq._turn_eras(timestamptz, boolean) is
    'Has the slot emptied that is past retention and begins a new era when it is time.';
revoke all on function pgq._turn_eras(timestamptz, boolean) from public;

-- sql/48_era/unfinished.sql

-- Which messages of a span some queue still has to deliver.
create function pgq._unfinished(span int8multirange) returns int8multirange
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(range_agg(s.ids * span), '{}')
        from (
            select r.ids from pgq.ready r where r.ids && span
            union all
            select c.ids from pgq.scheduled c where c.ids && span
            union all
            select l.ids from pgq.lease l where l.ids && span
            union all
            select int8multirange(int8range(g.message_id, g.message_id + 1))
            from pgq.group_line g where span @> g.message_id
        ) s);
end
$$;
comment on function pgq._unfinished(int8multirange) is
    'Which messages of a span some queue still has to deliver.';
revoke all on function pgq._unfinished(int8multirange) from public;

-- sql/50_claim/ack.sql

-- Ends messages for good; null: everything that the lease still holds.
create function pgq.ack(
    lease_id bigint, ids bigint[] default null, caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queue_id int;
    v_attempt int;
    v_claimed_at timestamptz;
    v_holder text;
    v_client inet;
    v_ids int8multirange;
    v_journal boolean;
    v_part pgq.lease;
    v_queue pgq.queue;
    v_count int := 0;
begin
    if caller <> current_user then
        if not pgq._is_owner(caller) then
            perform pgq._require_lease(caller, ack.lease_id);
        end if;
    end if;
    if ids is null then
        -- Mostly a lease is one row, and no group waits for its end.
        delete from pgq.lease l
        where l.lease_id = ack.lease_id and l.part = 0 and not l.grouped
        returning l.queue_id, l.attempt, l.claimed_at, l.holder, l.client, l.ids, l.size, l.journal
        into v_queue_id, v_attempt, v_claimed_at, v_holder, v_client, v_ids, v_count, v_journal;
        if v_journal then
            insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                     holder, client, ids)
            values (v_now, v_queue_id, 'ack', v_attempt, v_count, ack.lease_id, v_claimed_at,
                    v_holder, v_client, v_ids);
        end if;
        if v_count > 0 then
            return v_count;
        end if;
        v_count := 0;
    end if;
    for v_part in select * from pgq._end_lease(ack.lease_id, ack.ids) loop
        if v_part.journal then
            insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                     holder, client, ids)
            values (v_now, v_part.queue_id, 'ack', v_part.attempt, v_part.size, v_part.lease_id,
                    v_part.claimed_at, v_part.holder, v_part.client, v_part.ids);
        end if;
        v_count := v_count + v_part.size;
        if v_part.grouped then
            select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
            if found then
                perform pgq._advance_groups(v_queue, v_part.ids, v_now);
            end if;
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq.ack(bigint, bigint[], pgq.caller) is
    'Acknowledges messages of a lease: they are done. Without ids everything that the lease still '
    'holds. Returns how many. QU003 if the lease does not hold them: nothing has changed then.';
revoke all on function pgq.ack(bigint, bigint[], pgq.caller) from public;

-- sql/50_claim/await_rows.sql

-- Waits a moment for whoever is taking from these ready rows; true if the wait is over. Keeps no
-- lock: two who have waited for the same row would lock each other out of it. Asks for the lock of
-- those who take, so that another one that waits is waited for too: a weaker lock would be had at
-- once, while it keeps everybody from taking.
create function pgq._await_rows(rows tid[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '200ms'
as $$
begin
    perform from pgq.ready r where r.ctid = any (rows) for update;
    raise exception using errcode = 'QU000';
exception
    when sqlstate 'QU000' then
        return true;
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._await_rows(tid[]) is
    'Waits a moment for whoever is taking from these ready rows.';
revoke all on function pgq._await_rows(tid[]) from public;

-- sql/50_claim/backlog.sql

-- How many messages of a queue can be claimed now, exactly; a sum over sets, not over messages.
create function pgq.backlog(
    topic text, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', backlog.topic);
begin
    return (select coalesce(sum(r.size), 0) from pgq.ready r where r.queue_id = v_queue.queue_id);
end
$$;
comment on function pgq.backlog(text, pgq.caller) is
    'How many messages of a queue are ready to be claimed, exactly. Takes nothing, works on a '
    'standby.';
revoke all on function pgq.backlog(text, pgq.caller) from public;

-- sql/50_claim/bury.sql

-- Makes messages dead letters now, whatever attempts they have left.
create function pgq.bury(
    lease_id bigint,
    ids bigint[] default null,
    error text default null,
    details jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_part pgq.lease;
    v_count int := 0;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, bury.lease_id);
    end if;
    for v_part in select * from pgq._end_lease(bury.lease_id, bury.ids) loop
        select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
        perform pgq._retry(v_queue, v_part, 'bury', null, error, details, v_now);
        v_count := v_count + v_part.size;
    end loop;
    return v_count;
end
$$;
comment on function pgq.bury(bigint, bigint[], text, jsonb, pgq.caller) is
    'Makes messages of a lease dead letters, whatever attempts they have left. Returns how many. '
    'QU003 if the lease does not hold them.';
revoke all on function pgq.bury(bigint, bigint[], text, jsonb, pgq.caller) from public;

-- sql/50_claim/claim.sql

-- Takes up to n messages of a queue that match the filter, for the time of a lease.
create function pgq.claim(
    topic text,
    filter jsonb default null,
    n int default 1,
    lease interval default null,
    key text default null,
    done bigint default null,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_queue pgq.queue;
    v_now timestamptz := pgq.now();
    v_until timestamptz;
    v_tick text;
    v_suits bigint := hashtextextended(topic, floor(date_part('epoch', v_now) * 10)::bigint);
    v_memory bigint[] := nullif(current_setting('pgq.head', true), '')::bigint[];
    v_lease_id bigint;
    v_taken pgq._taken;
    v_set int8multirange;
    v_low bigint;
    v_high bigint;
    v_attempt int := 1;
    v_whole boolean;
    v_slot int;
    v_count int := 0;
    v_rest int;
begin
    -- One expression for what is rarely so: each costs time of its own, and so does each operator.
    if (n between 1 and 1000000 and lease is null and done is null
        and caller = current_user) is not true
    then
        if not pgq._is_owner(caller) then
            perform pgq._require(caller, 'consume', claim.topic);
            if done is not null then
                perform pgq._require_lease(caller, done);
            end if;
        end if;
        v_queue := pgq._queue(claim.topic);  -- QU001 comes first
        if n is null or n not between 1 and 1000000 then
            raise exception 'n must be between 1 and 1000000, not %', coalesce(n::text, 'null')
                using errcode = 'invalid_parameter_value',
                      hint = 'n is the most messages that one claim takes.';
        end if;
        if lease <= interval '0' then
            raise exception 'lease must be longer than zero'
                using errcode = 'invalid_parameter_value',
                      hint = 'Leave it out to use the queue''s lease.';
        end if;
        if done is not null then
            v_rest := pgq.ack(done);
        end if;
    end if;

    -- What stands at the head is mostly like what stood there before (see _take): one statement
    -- takes and leases it, or does nothing. Either a row that holds as many messages as are wanted:
    if v_memory[7] = v_suits and v_memory[6] = n
       and filter is null and key is null
    then
        with taken as (
            delete from pgq.ready r using pgq.queue q
            where q.name = claim.topic and q.queue_id = v_memory[1] and q.mode = 'queue'
              and not q.paused
              and r.ctid = coalesce(
                  (select h.ctid from pgq.ready h
                   where h.queue_id = v_memory[1] and h.rank < v_memory[2]
                   order by h.rank limit 1 for update skip locked),
                  (select h.ctid from pgq.ready h
                   where h.queue_id = v_memory[1] and h.rank >= v_memory[3]
                   order by h.rank limit 1 for update skip locked))
              and r.size = n and r.attempt = 0 and r.failures is null and r.expires_at is null
              and not r.grouped
            returning q.queue_id, v_now + coalesce(claim.lease, q.lease) as until,
                      q.journal = 'all' as journal, r.ids
        )
        -- All columns with their types: a list of others costs a step in between.
        insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                    grouped, journal, holder, client, key, failures, ids)
        select pgq._lease_second(t.until) + nextval('pgq.lease_id'), v_now, t.until, t.queue_id, 0,
               1, n, false, t.journal, nullif(current_setting('application_name'), ''),
               inet_client_addr(), null::text, null::jsonb, t.ids
        from taken t
        returning l.lease_id, l.until, l.ids, lower(l.ids), upper(l.ids)
        into v_lease_id, v_until, v_set, v_low, v_high;
    -- Or rows of one message, one behind the other, so that the ranks tell the ids. Fewer than are
    -- wanted will do if no stretch was skipped.
    elsif v_memory[7] = v_suits and v_memory[6] = 1
          and n between 2 and v_memory[4] and filter is null and key is null
    then
        with queue as materialized (
            select q.queue_id, v_now + coalesce(claim.lease, q.lease) as until,
                   q.journal = 'all' as journal
            from pgq.queue q
            where q.name = claim.topic and q.queue_id = v_memory[1] and q.mode = 'queue'
              and not q.paused
              -- In order, so that the planner takes the index that has both.
              and (select r.rank from pgq.ready r
                   where r.queue_id = v_memory[1] and r.rank < v_memory[2]
                   order by r.rank limit 1) is null
        ), head as materialized (
            select array_agg(h.ctid) as places, count(*)::int as size,
                   min(h.rank) & 562949953421311 as low
            from (
                select r.ctid, r.* from pgq.ready r
                where r.queue_id = (select q.queue_id from queue q) and r.rank >= v_memory[3]
                order by r.rank limit n for update skip locked
            ) h
            having max(h.rank) - min(h.rank) = count(*) - 1
               and bool_and(h.size = 1 and h.attempt = 0 and h.failures is null
                            and h.expires_at is null and not h.grouped)
               and (count(*) = n or v_memory[3] = -9223372036854775808)
        ), gone as (
            delete from pgq.ready r where r.ctid = any ((select h.places from head h)::tid[])
        )
        insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                    grouped, journal, holder, client, key, failures, ids)
        select pgq._lease_second(q.until) + nextval('pgq.lease_id'), v_now, q.until, q.queue_id, 0,
               1, h.size, false, q.journal, nullif(current_setting('application_name'), ''),
               inet_client_addr(), null::text, null::jsonb,
               int8multirange(int8range(h.low, h.low + h.size))
        from head h cross join queue q
        returning l.lease_id, l.until, l.ids, lower(l.ids), upper(l.ids), l.size
        into v_lease_id, v_until, v_set, v_low, v_high, v_rest;
        if found then
            n := v_rest;
            v_memory[4] := v_memory[4] - n;
            -- An assignment is cheaper than a statement.
            v_tick := set_config('pgq.head', v_memory::text, false);
        end if;
    end if;
    if v_lease_id is null then
        select q.* into v_queue from pgq.queue q where q.name = claim.topic;
        if v_queue.mode is distinct from 'queue' or v_queue.paused or filter is not null
           or key is not null
        then
            if v_queue.queue_id is null then
                v_queue := pgq._queue(claim.topic);  -- raises QU001
            end if;
            if v_queue.mode = 'archive' then
                raise exception 'queue "%" is an archive: it stores and does not deliver',
                    claim.topic
                    using errcode = 'feature_not_supported',
                          hint = 'Subscribe another queue to the topic, or use pgq.peek to look.';
            end if;
            if filter = '{}' then
                filter := null;
            end if;
            if key is not null then
                -- Callers of one name take turns, so that the second finds what the first has
                -- claimed.
                perform pgq._take_name(v_queue.queue_id, key);
                -- That may have taken a while, in which the queue may have got lanes, or gone.
                v_queue := pgq._queue(claim.topic);
                v_now := pgq.now();
                -- Locked, because somebody may be ending the lease, or taking it back.
                select l.lease_id into v_lease_id from pgq.lease l
                where l.queue_id = v_queue.queue_id and l.key = claim.key
                order by l.part limit 1 for update;
                if found then
                    update pgq.lease l set until = v_now + coalesce(claim.lease, v_queue.lease)
                    where l.lease_id = v_lease_id
                      and l.until < v_now + coalesce(claim.lease, v_queue.lease);
                    if current_setting('pgq.unread', true) = 'on' then
                        return;
                    end if;
                    return query select * from pgq.leased(v_lease_id);
                    return;
                end if;
            end if;
            if v_queue.paused then
                return;
            end if;
        end if;

        -- A session looks after its queue at most ten times a second, or when it finds too little.
        v_tick := v_queue.queue_id || ' ' || floor(date_part('epoch', v_now) * 10);
        if current_setting('pgq.tick', true) is distinct from v_tick then
            perform set_config('pgq.tick', v_tick, false);
            perform pgq._upkeep(v_queue, 10000, v_now);
            -- Emptying a slot means to look for its unfinished messages: with a huge backlog that
            -- is left to maintain().
            perform pgq._turn_eras(v_now, pg_relation_size('pgq.ready') < 67108864);
        end if;

        for i in 1 .. 5 loop
            if filter is null then
                v_taken := pgq._take(v_queue, n, v_now);
            else
                v_taken := pgq._take_matching(v_queue, filter, n, v_now);
            end if;
            exit when v_taken.size > 0;
            -- Found nothing: look for what is due; or wait a moment for those who are taking a
            -- part of a set, because the rest of it is for us.
            continue when i = 1 and pgq._upkeep(v_queue, 10000, v_now) > 0;
            exit when v_taken.missed is null or v_taken.missed = '{}'
                or not pgq._await_rows(v_taken.missed);
        end loop;
        if v_taken.size = 0 then
            return;
        end if;

        v_until := v_now + coalesce(lease, v_queue.lease);
        v_lease_id := pgq._lease_second(v_until) + nextval('pgq.lease_id');
        if cardinality(v_taken.sets) = 1 then
            insert into pgq.lease (lease_id, part, queue_id, attempt, size, grouped, journal,
                                   claimed_at, until, holder, client, key, failures, ids)
            values (v_lease_id, 0, v_queue.queue_id, v_taken.attempts[1] + 1, v_taken.size,
                    v_taken.grouped[1], v_queue.journal = 'all', v_now, v_until,
                    nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key,
                    v_taken.failures[1], v_taken.sets[1]);
        else
            insert into pgq.lease (lease_id, part, queue_id, attempt, size, grouped, journal,
                                   claimed_at, until, holder, client, key, failures, ids)
            select v_lease_id, row_number() over (), v_queue.queue_id, p.attempt + 1,
                   pgq._set_size(p.ids), p.grouped, v_queue.journal = 'all', v_now, v_until,
                   nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key,
                   p.failures, p.ids
            from (
                select u.attempt, u.failures, u.grouped, range_agg(u.ids) as ids
                from unnest(v_taken.sets, v_taken.attempts, v_taken.failures, v_taken.grouped)
                    u (ids, attempt, failures, grouped)
                group by 1, 2, 3
            ) p;
        end if;
        if key is not null then
            if current_setting('pgq.unread', true) is distinct from 'on' then  -- hold reads nothing
                return query select * from pgq.leased(v_lease_id);  -- in the order of every reading
            end if;
            return;
        end if;
        n := v_taken.size;
        v_memory := case when filter is null then current_setting('pgq.head')::bigint[] end;
        if cardinality(v_taken.sets) = 1 then
            v_attempt := v_taken.attempts[1] + 1;
            v_set := v_taken.sets[1];
            v_low := lower(v_set);
            v_high := upper(v_set);
        end if;
    end if;

    if v_high - v_low <= 2 * n then
        -- Mostly they stand together in the log, in their order.
        v_whole := v_high - v_low = n;
        -- If they were published since this session first saw the current era (see _take), they
        -- are in its slot: looking into one costs less than looking into three. While a new era
        -- begins they may be in two, in any order.
        v_slot := case
            when v_low > v_memory[9] and v_memory[8] = pg_sequence_last_value('pgq.era_number')
            then (v_memory[8] % 3)::int
        end;
        case v_slot
            when 0 then
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message_0 m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
            when 1 then
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message_1 m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
            when 2 then
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message_2 m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
            else
                return query
                    select v_lease_id, m.id, m.topic, m.priority, v_attempt, m.headers, m.payload,
                           m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                           m.published_at, m.expires_at, v_until
                    from pgq.message m
                    where m.id >= v_low and m.id < v_high and (v_whole or m.id <@ v_set)
                    order by m.id;
        end case;
        get diagnostics v_count = row_count;
        if v_count = n then
            return;
        end if;
    end if;
    if v_whole is null or v_slot is not null then
        -- They stand far apart; or not all were in the slot where they have to be: whatever the
        -- reason, nothing that is leased may be missing.
        if v_taken.size is null then
            v_taken := row(n, array[v_set], '{0}'::int[], null::jsonb[], null::boolean[],
                           null::tid[])::pgq._taken;
        end if;
        return query
            select v_lease_id, m.id, m.topic, m.priority, u.attempt + 1, m.headers, m.payload,
                   m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                   m.published_at, m.expires_at, v_until
            from unnest(v_taken.sets, v_taken.attempts) with ordinality u (ids, attempt, i)
            cross join lateral unnest(u.ids) r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            where m.era is distinct from v_slot
            order by u.i, m.id;
        get diagnostics v_rest = row_count;
        v_count := v_count + v_rest;
    end if;
    if v_count < n then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) is
    'Takes up to n messages of a queue that match the filter, in delivery order, and holds them '
    'for the lease. All rows of a call share one lease_id, the token for ack, nack, bury and '
    'extend. With a key the claim has a name: the same key returns the same messages until they '
    'are acknowledged. With done, the token of a lease, that one is acknowledged first: a consumer '
    'that is through with its batch ends it and takes the next in one call and one commit. QU003 '
    'if it is lost: nothing has changed then.';
revoke all on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) from public;

-- sql/50_claim/extend.sql

-- The lease lasts from now for the given time, or for the queue's.
create function pgq.extend(
    lease_id bigint, lease interval default null, caller pgq.caller default current_user
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, extend.lease_id);
    end if;
    if extend.lease <= interval '0' then
        raise exception 'lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'To give messages back use pgq.nack.';
    end if;
    update pgq.lease l
    -- Never shorter: the token stands where the lease was to end, and is not looked for before.
    set until = greatest(l.until, v_now + coalesce(extend.lease, q.lease))
    from pgq.queue q
    where l.lease_id = extend.lease_id and q.queue_id = l.queue_id;
    if not found then
        perform pgq._lose_lease(extend.lease_id);
    end if;
    return (
        select nullif(min(l.until), 'infinity') from pgq.lease l
        where l.lease_id = extend.lease_id);
end
$$;
comment on function pgq.extend(bigint, interval, pgq.caller) is
    'Holds the messages of a lease for longer: the given time (null: the queue''s lease) from now. '
    'Returns until when; null: a lease that is held without an end keeps none. QU003 if the lease '
    'is lost.';
revoke all on function pgq.extend(bigint, interval, pgq.caller) from public;

-- sql/50_claim/hold.sql

-- A named claim that does not read its messages: the lease alone, without an end unless one is
-- given. For those who read it in slices.
create function pgq.hold(
    topic text,
    key text,
    filter jsonb default null,
    n int default 1,
    lease interval default null,
    caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint, lease_until timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', hold.topic);
begin
    if hold.key is null or hold.key = '' then
        raise exception 'a claim to be held needs a name'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use a key that says whose it is, such as ''nightly-job 42''.';
    end if;
    perform set_config('pgq.unread', 'on', true);
    perform pgq.claim(hold.topic, hold.filter, hold.n,
                      coalesce(hold.lease, interval '100 years'), hold.key);
    perform set_config('pgq.unread', '', true);
    if hold.lease is null then
        update pgq.lease l set until = 'infinity'
        where l.queue_id = v_queue.queue_id and l.key = hold.key and l.until < 'infinity';
    end if;
    return query
        select l.lease_id, sum(l.size), nullif(min(l.until), 'infinity')
        from pgq.lease l
        where l.queue_id = v_queue.queue_id and l.key = hold.key
        group by l.lease_id;
end
$$;
comment on function pgq.hold(text, text, jsonb, int, interval, pgq.caller) is
    'Claims under a name without reading the messages, for those who read them in slices with '
    'pgq.leased: returns the lease and how many messages it holds, or no row if there are none to '
    'claim. The same key returns the same lease until it is acknowledged. Without a lease it has '
    'no end: pgq.leases lists what is held, pgq.release breaks it.';
revoke all on function pgq.hold(text, text, jsonb, int, interval, pgq.caller) from public;

-- sql/50_claim/keep_lanes.sql

-- Which lanes of a queue can hold a match (null: any ready row can), and in which of them every
-- message does. A mixed lane, or one of other keys than the queue has now, can hold anything.
create function pgq._keep_lanes(
    queue pgq.queue, filter pgq.filter, out lanes int[], out sure int[], out by_lane boolean)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    by_lane := false;
    if queue.lane_keys is null then
        return;
    end if;
    select coalesce(array_agg(l.lane_id), '{}'),
           coalesce(array_agg(l.lane_id) filter (where not l.mixed and filter.lane_final), '{}')
    into lanes, sure
    from (
        select k.lane_id, k.headers,
               k.label is null or k.lane_keys <> queue.lane_keys as mixed
        from pgq.lane k where k.queue_id = queue.queue_id
    ) l
    where l.mixed or jsonb_path_match(l.headers, filter.lane_path, '{}', true);
    -- One scan per lane pays while they are few; and it cannot see rows that have no lane.
    by_lane := cardinality(lanes) <= 32 and not queue.unlaned_rows;
end
$$;
comment on function pgq._keep_lanes(pgq.queue, pgq.filter) is
    'The lanes of a queue that can hold a match for a filter.';
revoke all on function pgq._keep_lanes(pgq.queue, pgq.filter) from public;

-- sql/50_claim/lease_parts.sql

-- Ranges of ids that cut a lease into parts of one size, for parallel readers.
create function pgq.lease_parts(
    lease_id bigint, n int default 1, caller pgq.caller default current_user)
returns table (low bigint, high bigint, size bigint, attempt int, grouped boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_size bigint;
    v_attempt int;
    v_grouped boolean;
    v_parts bigint;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, lease_parts.lease_id);
    end if;
    if lease_parts.n is null or lease_parts.n < 1 then
        raise exception 'there must be at least one part'
            using errcode = 'invalid_parameter_value',
                  hint = 'About as many as there are readers is a good number.';
    end if;
    -- Locks the log until the transaction ends: a statement after this one has a newer snapshot,
    -- and finds what was carried out of an emptied era.
    lock table pgq.message in access share mode;
    select sum(l.size), case when min(l.attempt) = max(l.attempt) then min(l.attempt) end,
           bool_or(l.grouped)
    into v_size, v_attempt, v_grouped
    from pgq.lease l where l.lease_id = lease_parts.lease_id;
    if v_size is null then
        perform pgq._lose_lease(lease_parts.lease_id);
    end if;
    v_parts := least(lease_parts.n, v_size);
    return query
        with run as (
            select lower(r) as low, upper(r) as high,
                   (sum(upper(r) - lower(r)) over (order by lower(r)))::bigint as after
            from pgq.lease l cross join lateral unnest(l.ids) r
            where l.lease_id = lease_parts.lease_id
        ),
        -- Part i begins with the message that has v_size * i / v_parts others before it.
        edge as (
            select v_size * i / v_parts as place, u.high + v_size * i / v_parts - u.after as id
            from run u
            cross join lateral generate_series(
                ((u.after - u.high + u.low) * v_parts + v_size - 1) / v_size,
                (u.after * v_parts + v_size - 1) / v_size - 1) i
        )
        select e.id,
               coalesce(lead(e.id) over (order by e.id), (select max(u.high) from run u)),
               coalesce(lead(e.place) over (order by e.id), v_size) - e.place,
               v_attempt, v_grouped
        from edge e order by e.id;
end
$$;
comment on function pgq.lease_parts(bigint, int, pgq.caller) is
    'Cuts a lease into at most n parts of about one size: ranges of ids, from low to before high, '
    'and how many messages of the lease are in each; and tells what need not be read of each '
    'message: the attempt, if all have the same, and that none has a group key, if grouped is '
    'false. For parallel readers of pgq.leased_message: called at the beginning of a transaction '
    'under READ COMMITTED it makes sure that the messages stay where they are until its end.';
revoke all on function pgq.lease_parts(bigint, int, pgq.caller) from public;

-- sql/50_claim/lease_slices.sql

-- How many messages each slice of a lease has: what readers of the slices check themselves by.
create function pgq.lease_slices(
    lease_id bigint, "of" int, caller pgq.caller default current_user)
returns table (slice int, size bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, lease_slices.lease_id);
    end if;
    if "of" is null or "of" < 1 then
        raise exception 'there must be at least one slice'
            using errcode = 'invalid_parameter_value',
                  hint = 'About as many as there are readers is a good number.';
    end if;
    return query
        select (b % "of")::int,
               sum(least(upper(r), (b + 1) << 6) - greatest(lower(r), b << 6))::bigint
        from pgq.lease l
        cross join lateral unnest(l.ids) r
        cross join lateral generate_series(lower(r) >> 6, (upper(r) - 1) >> 6) b
        where l.lease_id = lease_slices.lease_id
        group by 1 order by 1;
end
$$;
comment on function pgq.lease_slices(bigint, int, pgq.caller) is
    'How many messages of a lease pgq.leased(lease_id, slice, of) returns for each slice; slices '
    'without messages are left out.';
revoke all on function pgq.lease_slices(bigint, int, pgq.caller) from public;

-- sql/50_claim/leased.sql

-- The messages of a lease: all in delivery order, or those of a slice. Volatile, so that it reads
-- with a snapshot taken after it has locked the log: an older one would miss what was carried out
-- of an emptied era.
create function pgq.leased(
    lease_id bigint, slice int default 0, "of" int default 1,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_size bigint;
    v_count bigint;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, leased.lease_id);
    end if;
    if slice is null or "of" is null or "of" < 1 or slice not between 0 and "of" - 1 then
        raise exception 'there is no slice % of %', coalesce(slice::text, 'null'),
            coalesce("of"::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Slices are numbered from 0 to of - 1.';
    end if;
    select sum(l.size) into v_size from pgq.lease l where l.lease_id = leased.lease_id;
    if v_size is null then
        perform pgq._lose_lease(leased.lease_id);
    end if;
    if "of" > 1 then
        return query
            select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload,
                   m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                   m.published_at, m.expires_at, nullif(l.until, 'infinity')
            from pgq.lease l
            cross join lateral pgq._slice_ranges(l.ids, slice, "of") r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            where l.lease_id = leased.lease_id;
        get diagnostics v_count = row_count;
        if current_setting('transaction_isolation') <> 'read committed' then
            select sum(upper(r) - lower(r))::bigint into v_size
            from pgq.lease l cross join lateral pgq._slice_ranges(l.ids, slice, "of") r
            where l.lease_id = leased.lease_id;
            if v_count < v_size then
                perform pgq._refuse_snapshot();
            end if;
        end if;
        return;
    end if;
    return query
        select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, nullif(l.until, 'infinity')
        from pgq.lease l
        cross join lateral unnest(l.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where l.lease_id = leased.lease_id
        order by m.priority desc, l.attempt > 1 desc, m.id;
    get diagnostics v_count = row_count;
    if v_count < v_size then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq.leased(bigint, int, int, pgq.caller) is
    'The messages that a lease holds, again: for parallel readers and for recovery. Takes nothing. '
    'With slice and of only a part of them, in no order: the slices 0 to of - 1 together are all, '
    'and a message stays in its slice whatever is acknowledged meanwhile.';
revoke all on function pgq.leased(bigint, int, int, pgq.caller) from public;

-- sql/50_claim/move_on.sql

-- Moves on groups whose head was done while a publisher held them; returns how many.
create function pgq._move_on(queue pgq.queue, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stall record;
    v_next record;
    v_count int := 0;
begin
    for v_stall in
        select s.ctid, s.group_key, s.message_id from pgq.group_stall s
        where s.queue_id = queue.queue_id order by s.group_key limit 100 for update skip locked
    loop
        v_next := pgq._advance_group(queue.queue_id, v_stall.group_key, v_stall.message_id);
        continue when v_next.held;
        delete from pgq.group_stall s where s.ctid = v_stall.ctid;
        v_count := v_count + 1;
        if v_next.next_id is not null then
            perform pgq._admit_heads(queue, array[v_next.next_id], v_next.failures, now);
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq._move_on(pgq.queue, timestamptz) is
    'Moves on groups whose head was done while a publisher held them.';
revoke all on function pgq._move_on(pgq.queue, timestamptz) from public;

-- sql/50_claim/nack.sql

-- Gives messages back: another attempt after a delay, or the dead letters after the last one.
create function pgq.nack(
    lease_id bigint,
    ids bigint[] default null,
    delay interval default null,
    error text default null,
    details jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_part pgq.lease;
    v_count int := 0;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, nack.lease_id);
    end if;
    if delay < interval '0' then
        raise exception 'delay must not be negative'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for the queue''s backoff, or use ''0'' to retry at once.';
    end if;
    for v_part in select * from pgq._end_lease(nack.lease_id, nack.ids) loop
        select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
        perform pgq._retry(v_queue, v_part, 'nack', delay, error, details, v_now);
        v_count := v_count + v_part.size;
    end loop;
    return v_count;
end
$$;
comment on function pgq.nack(bigint, bigint[], interval, text, jsonb, pgq.caller) is
    'Refuses messages of a lease: they are retried after the delay (null: the queue''s '
    'backoff), or '
    'become dead letters if this was the last attempt. Returns how many. QU003 if the lease does '
    'not hold them.';
revoke all on function pgq.nack(bigint, bigint[], interval, text, jsonb, pgq.caller) from public;

-- sql/50_claim/named_lease.sql

-- The token of a named claim, for ack, nack, bury, extend, release and leased by name.
create function pgq.named_lease(
    topic text, key text, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', named_lease.topic);
    v_lease_id bigint;
begin
    select l.lease_id into v_lease_id from pgq.lease l
    where l.queue_id = v_queue.queue_id and l.key = named_lease.key
    order by l.part limit 1;
    if not found then
        raise exception 'queue "%" has no claim named "%"', named_lease.topic,
            coalesce(named_lease.key, 'null')
            using errcode = 'QU003',
                  hint = 'It was ended, or it expired and its messages are with another consumer.';
    end if;
    return v_lease_id;
end
$$;
comment on function pgq.named_lease(text, text, pgq.caller) is
    'The lease of a named claim, so that ack, nack, bury, extend, release and leased go by name: '
    'select pgq.ack(pgq.named_lease(''orders'', ''job-42'')). QU003 if there is none.';
revoke all on function pgq.named_lease(text, text, pgq.caller) from public;

-- sql/50_claim/peek.sql

-- The next n messages that a claim with this filter would get; takes nothing.
create function pgq.peek(
    topic text, filter jsonb default null, n int default 10, caller pgq.caller default current_user
) returns setof pgq.message
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', peek.topic);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), v_queue.lane_keys);
    v_now timestamptz := pgq.now();
    v_kept record;
    v_after bigint := -9223372036854775808;
    v_row record;
    v_rows int;
    v_left int := n;
    v_found int;
begin
    if n is null or n not between 1 and 1000000 then
        raise exception 'n must be between 1 and 1000000, not %', coalesce(n::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'n is the most messages to look at.';
    end if;
    v_kept := pgq._keep_lanes(v_queue, v_filter);
    while v_left > 0 loop
        v_rows := 0;
        for v_row in
            select p.* from pgq._peek_rows(v_queue.queue_id, v_kept.lanes, v_kept.by_lane, null,
                                           v_after, null, 4 * v_left + 1000) p
        loop
            v_rows := v_rows + 1;
            v_after := v_row.rank;
            continue when v_row.expires_at <= v_now;
            return query
                select m.* from unnest(v_row.ids) r
                cross join lateral (
                    -- Apart: a join would be done by walking through the whole log in its order.
                    select e.* from pgq.message e
                    where e.id >= lower(r) and e.id < upper(r) offset 0
                ) m
                where pgq._test_filter(
                    v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority,
                    m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                    v_row.attempt + 1, m.published_at, m.expires_at, m.id, v_now)
                order by m.id limit v_left;
            get diagnostics v_found = row_count;
            v_left := v_left - v_found;
            exit when v_left = 0;
        end loop;
        exit when v_rows = 0;
    end loop;
end
$$;
comment on function pgq.peek(text, jsonb, int, pgq.caller) is
    'Looks at the next n ready messages of a queue that match the filter, in delivery order. Takes '
    'nothing, locks nothing, works on a standby.';
revoke all on function pgq.peek(text, jsonb, int, pgq.caller) from public;

-- sql/50_claim/peek_rows.sql

-- The next ready rows that may hold a match, in order, with about that many messages in them.
-- Takes no lock: what is found here may be gone, or another's, when it is taken.
create function pgq._peek_rows(
    queue_id int, lanes int[], by_lane boolean, unseen pg_snapshot, after bigint, before bigint,
    messages int
) returns table ("row" tid, rank bigint, lane_id int, attempt int, size int,
               expires_at timestamptz, ids int8multirange)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_most int := least(_peek_rows.messages, 1000);
begin
    if unseen is not null then
        return query
            select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
            from (
                select r.ctid, r.* from pgq.ready r
                where r.queue_id = _peek_rows.queue_id and r.xid >= pg_snapshot_xmin(unseen)
                  and not pg_visible_in_snapshot(r.xid, unseen)
                  -- + 0: to be found by xid, because what is new is little
                  and r.rank + 0 > after and r.rank + 0 < before
                  and (lanes is null or r.lane_id is null or r.lane_id = any (lanes))
                offset 0
            ) s
            order by s.rank limit 1000;
    elsif by_lane then
        return query
            select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
            from (
                select r.*, sum(r.size) over (order by r.rank) - r.size as ahead
                from unnest(lanes) l (lane_id)
                cross join lateral (
                    select t.ctid, t.* from pgq.ready t
                    where t.lane_id = l.lane_id and t.rank > after
                    order by t.rank limit v_most
                ) r
                order by r.rank limit v_most
            ) s
            where s.ahead < messages
            order by s.rank;
    else
        return query
            select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
            from (
                select r.*, sum(r.size) over (order by r.rank) - r.size as ahead
                from (
                    select t.ctid, t.* from pgq.ready t
                    where t.queue_id = _peek_rows.queue_id and t.rank > after
                      and (lanes is null or t.lane_id is null or t.lane_id = any (lanes))
                    order by t.rank limit v_most
                ) r
            ) s
            where s.ahead < messages
            order by s.rank;
    end if;
end
$$;
comment on function pgq._peek_rows(int, int[], boolean, pg_snapshot, bigint, bigint, int) is
    'The next ready rows that may hold a match.';
revoke all on function pgq._peek_rows(int, int[], boolean, pg_snapshot, bigint, bigint, int)
    from public;

-- sql/50_claim/peek_slice.sql

-- The ready messages of a queue that match the filter and belong to a slice; takes nothing.
create function pgq.peek_slice(
    topic text, filter jsonb default null, slice int default 0, "of" int default 1,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', peek_slice.topic);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), v_queue.lane_keys);
    v_now timestamptz := pgq.now();
begin
    if slice is null or "of" is null or "of" < 1 or slice not between 0 and "of" - 1 then
        raise exception 'there is no slice % of %', coalesce(slice::text, 'null'),
            coalesce("of"::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Slices are numbered from 0 to of - 1.';
    end if;
    return query
        select null::bigint, m.id, m.topic, m.priority, d.attempt, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, null::timestamptz
        from pgq.ready d
        cross join lateral pgq._slice_ranges(d.ids, slice, "of") r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where d.queue_id = v_queue.queue_id
          and (d.expires_at is null or d.expires_at > v_now)
          and pgq._test_filter(
              v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
              m.recipient, m.reply_to, m.correlation_id, m.group_key, d.attempt + 1,
              m.published_at, m.expires_at, m.id, v_now);
end
$$;
comment on function pgq.peek_slice(text, jsonb, int, int, pgq.caller) is
    'Looks at all ready messages of a queue that match the filter, or at a slice of them, in no '
    'order: the slices 0 to of - 1 together are all. For parallel readers; attempt counts '
    'the deliveries so far. Takes nothing, works on a standby.';
revoke all on function pgq.peek_slice(text, jsonb, int, int, pgq.caller) from public;

-- sql/50_claim/promote.sql

-- Makes ready what has become due, a bounded amount of it; returns how many messages.
create function pgq._promote(queue pgq.queue, most int, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
declare
    v_row record;
    v_part int8multirange;
    v_count int := 0;
begin
    for v_row in
        select s.ctid, s.* from pgq.scheduled s
        where s.queue_id = queue.queue_id and s.due_at <= now
        order by s.due_at limit 100 for update skip locked
    loop
        exit when v_count >= most;
        delete from pgq.scheduled s where s.ctid = v_row.ctid;
        v_part := v_row.ids;
        if v_row.size > most then
            v_part := pgq._first_ids(v_row.ids, most);
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_row.queue_id, v_row.due_at, v_row.attempt, v_row.size - most,
                    v_row.grouped, v_row.failures, v_row.ids - v_part);
        end if;
        perform pgq._enqueue(queue, v_part, v_row.attempt, v_row.failures, v_row.grouped);
        v_count := v_count + least(v_row.size, most);
    end loop;
    return v_count;
end
$$;
comment on function pgq._promote(pgq.queue, int, timestamptz) is 'Makes ready what has become due.';
revoke all on function pgq._promote(pgq.queue, int, timestamptz) from public;

-- sql/50_claim/put_back.sql

-- Makes a ready row of what is left of one that was taken.
create function pgq._put_back("row" pgq.ready, ids int8multirange) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, failures, ids)
    values (
        "row".queue_id, "row".lane_id, (("row".rank >> 49) << 49) + lower(_put_back.ids),
        "row".attempt, pgq._set_size(_put_back.ids), pg_current_xact_id(), "row".expires_at,
        "row".grouped, "row".failures, _put_back.ids);
    -- Whoever looked at the row meanwhile may have gone to sleep.
    if exists (select from pgq.waiter) then
        perform pgq._wake("row".queue_id);
    end if;
end
$$;
comment on function pgq._put_back(pgq.ready, int8multirange) is
    'Makes a ready row of what is left of one that was taken.';
revoke all on function pgq._put_back(pgq.ready, int8multirange) from public;

-- sql/50_claim/read_log.sql

-- The messages of the log with ids from low to before high, whoever has received them.
create function pgq.read_log(
    low bigint, high bigint, topic text default null, filter jsonb default null,
    slot int default null
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_now timestamptz := pgq.now();
begin
    return query
        select null::bigint, m.id, m.topic, m.priority, 0, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, null::timestamptz
        from pgq.message m
        where m.id >= low and m.id < high
          and (slot is null or m.era = slot)
          and (read_log.topic is null or m.topic = read_log.topic)
          and (filter is null or pgq._test_filter(
              v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
              m.recipient, m.reply_to, m.correlation_id, m.group_key, 1, m.published_at,
              m.expires_at, m.id, v_now));
end
$$;
comment on function pgq.read_log(bigint, bigint, text, jsonb, int) is
    'The messages of the log with ids from low to before high, delivered or not; of a topic, '
    'matching a filter, in a slot, if these are given. In no order. Works on a standby.';
revoke all on function pgq.read_log(bigint, bigint, text, jsonb, int) from public;

-- sql/50_claim/release.sql

-- Gives messages back as if they had not been claimed: the attempt is not counted.
create function pgq.release(
    lease_id bigint,
    ids bigint[] default null,
    delay interval default '0',
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_part pgq.lease;
    v_count int := 0;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, release.lease_id);
    end if;
    if delay is null or delay < interval '0' then
        raise exception 'delay must not be negative or null'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out to let the messages be claimed at once.';
    end if;
    for v_part in select * from pgq._end_lease(release.lease_id, release.ids) loop
        insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                                 client, ids)
        values (v_now, v_part.queue_id, 'release', v_part.attempt, v_part.size, v_part.lease_id,
                v_part.claimed_at, v_part.holder, v_part.client, v_part.ids);
        v_count := v_count + v_part.size;
        select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
        continue when not found;  -- the queue was dropped, and its messages with it
        insert into pgq.outcome (queue_id, event, size)
        values (v_part.queue_id, 'release', v_part.size);
        if delay > interval '0' then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_part.queue_id, v_now + delay, v_part.attempt - 1, v_part.size,
                    v_part.grouped, v_part.failures, v_part.ids);
            perform pgq._wake(v_part.queue_id);
        else
            perform pgq._enqueue(
                v_queue, v_part.ids, v_part.attempt - 1, v_part.failures, v_part.grouped);
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq.release(bigint, bigint[], interval, pgq.caller) is
    'Gives messages of a lease back unharmed: nothing failed, the attempt is not counted, and they '
    'can be claimed again at once, or after the delay. For a consumer that stops, or that wants '
    'other messages. Returns how many. QU003 if the lease does not hold them.';
revoke all on function pgq.release(bigint, bigint[], interval, pgq.caller) from public;

-- sql/50_claim/remember_scan.sql

-- Remembers how far a filter has looked, unless somebody else is just remembering it.
create function pgq._remember_scan(
    filter_id bigint, queue_id int, snapshot pg_snapshot, rank bigint
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.filter_scan s
    where s.filter_id = _remember_scan.filter_id and s.queue_id = _remember_scan.queue_id
    for update skip locked;
    if found then
        update pgq.filter_scan s
        set snapshot = _remember_scan.snapshot, rank = _remember_scan.rank
        where s.filter_id = _remember_scan.filter_id and s.queue_id = _remember_scan.queue_id
          -- A claim that began later knows more.
          and pg_snapshot_xmax(s.snapshot) <= pg_snapshot_xmax(_remember_scan.snapshot);
    elsif pg_try_advisory_xact_lock(
        hashtextextended(format('pgq.filter_scan %s %s', filter_id, queue_id), 0))
    then
        -- The lock keeps two first-comers from waiting for each other's uncommitted row.
        insert into pgq.filter_scan (filter_id, queue_id, snapshot, rank)
        values (_remember_scan.filter_id, _remember_scan.queue_id, _remember_scan.snapshot,
                _remember_scan.rank)
        on conflict on constraint filter_scan_pkey do nothing;
    end if;
end
$$;
comment on function pgq._remember_scan(bigint, int, pg_snapshot, bigint) is
    'Remembers how far a filter has looked.';
revoke all on function pgq._remember_scan(bigint, int, pg_snapshot, bigint) from public;

-- sql/50_claim/seen.sql

-- Has this handler seen the message? If not, it has now.
create function pgq.seen(
    handler text, message_id bigint, size int default 100, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    -- The handlers of a role are its own: nobody can mark what another has to do as done.
    v_handler text := case when pgq._is_owner(caller) then handler
                           else quote_ident(caller) || ':' || handler end;
begin
    if handler is null or handler = '' or message_id is null or size is null or size < 1 then
        raise exception 'seen needs a handler, a message id and a size of at least 1'
            using errcode = 'invalid_parameter_value',
                  hint = 'The handler is a name of yours, such as "billing:charge".';
    end if;
    -- Waits for a transaction that is handling the same message, until it is known how it ends.
    insert into pgq.handled (handler, message_id, handled_at)
    values (v_handler, seen.message_id, pgq.now())
    on conflict on constraint handled_pkey do nothing;
    if not found then
        return true;
    end if;
    delete from pgq.handled h
    where h.ctid = any (array(
        -- Locked is only what goes: OFFSET in a query with FOR UPDATE would lock the whole ring.
        select o.ctid from pgq.handled o
        where o.handler = v_handler and o.handled_id <= (
            select l.handled_id from pgq.handled l
            where l.handler = v_handler order by l.handled_id desc offset size limit 1)
        for update skip locked));
    return false;
end
$$;
comment on function pgq.seen(text, bigint, int, pgq.caller) is
    'Consumer-side deduplication: true if the handler has seen the message among its last size '
    'ones, else false, and it is remembered. Call it in the transaction of the work: what is '
    'rolled '
    'back was not seen. A role with rights has handlers of its own.';
revoke all on function pgq.seen(text, bigint, int, pgq.caller) from public;

-- sql/50_claim/signal.sql

-- What a consumer of the queue has to listen for, besides the name.
create function pgq.signal(topic text, caller pgq.caller default current_user)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', signal.topic);
begin
    return v_queue.signal::text;
end
$$;
comment on function pgq.signal(text, pgq.caller) is
    'What wakes the consumers of a queue: the payload of NOTIFY, channel pgq, is the name of the '
    'queue, or this, as soon as pgq.grant_queue has given a right to any role. It tells nothing to '
    'others, who can listen too.';
revoke all on function pgq.signal(text, pgq.caller) from public;

-- sql/50_claim/take.sql

-- Takes up to n messages off the head of a queue, in order, skipping what others are taking.
--
-- A scan of the head walks over the rows that were consumed before it: few, as long as they can
-- be cleaned up, but all of them while somebody holds an old snapshot open. So a session that has
-- taken 512 rows remembers where the head is, for a second or its next 8192 rows, and begins there.
-- The memory skips only fresh rows of one priority that were not visible when it was made; what
-- comes back ranks before them, and a scan that finds too little looks at the skipped stretch too.
create function pgq._take(queue pgq.queue, n int, now timestamptz)
returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
declare
    v_none constant bigint := -9223372036854775808;
    v_sets int8multirange[] := '{}';
    v_attempts int[] := '{}';
    v_failures jsonb[] := '{}';
    v_grouped boolean[] := '{}';
    v_missed tid[];
    v_left int := n;
    v_rows pgq.ready[];
    v_count int;
    v_total int;
    v_gone tid[];
    v_plain boolean;
    v_row pgq.ready;
    v_size int;
    v_set int8multirange;
    v_rest int8multirange;
    v_memory bigint[] := nullif(current_setting('pgq.head', true), '')::bigint[];
    v_class bigint := 0::bigint;
    v_head bigint := v_none;
    v_first bigint;
    v_last bigint;
    v_stretch bigint;
    v_more bigint := 512::bigint;
    v_tick bigint := floor(date_part('epoch', now) * 10)::bigint;
    v_second bigint := v_tick / 10;
    v_moment bigint := hashtextextended(queue.name, v_tick);
    v_suits bigint := 0::bigint;
    v_number bigint := pg_sequence_last_value('pgq.era_number');
    v_before bigint;
    v_until bigint;
    -- The stretches of rank to scan, one after the other.
    v_from bigint[] := array[-9223372036854775808];
    v_to bigint[] := array[9223372036854775807];
begin
    -- Memory: queue, first fresh rank of a priority, head, rows that may be taken before the head
    -- is looked for again, the second until which all this holds, ids in a row; then, as one
    -- number, the queue's name and the tenth of a second in which claim may take rows by that (0:
    -- they do not suit), the current era, and the last id when the session saw it first: an id is
    -- given before the era is looked up, so later ones are in it.
    if v_memory[1] = queue.queue_id and v_second between v_memory[5] - 60 and v_memory[5] + 1 then
        v_class := v_memory[2];
        v_head := v_memory[3];
        v_more := v_memory[4];
        v_size := v_memory[6]::int;
        if v_memory[7] not in (0, v_moment) then
            v_more := v_more - 50;  -- claim may have taken some meanwhile
        end if;
        if v_more <= 0 or v_head <> v_none and v_second > v_memory[5] then
            -- All that can be seen counts, not only what can be locked: another transaction
            -- may give back what it has taken. Those whose turn in a group comes later stand
            -- among the fresh, anywhere.
            v_head := coalesce(
                (select r.rank from pgq.ready r
                 where r.queue_id = queue.queue_id and r.rank >= v_class
                   and not exists (select from pgq.group_head h where h.queue_id = queue.queue_id)
                 order by r.rank limit 1), v_none);
            v_more := case when v_head = v_none then 512::bigint else 8192::bigint end;
            v_until := v_second + 1;
        elsif v_head <> v_none then
            v_until := v_memory[5];
        end if;
        if v_head > v_class then
            v_from := array[v_none, v_head, v_class];
            v_to := array[v_class - 1, 9223372036854775807, v_head - 1];
        end if;
    end if;
    if v_memory[8] = v_number then
        v_before := v_memory[9];
    else
        v_before := pg_sequence_last_value('pgq.message_id');
    end if;

    for i in 1 .. cardinality(v_from) loop
        loop
            -- Lock no more rows than are needed. One, as far as the last one tells ...
            if v_left <= coalesce(v_size, 1) then
                delete from pgq.ready r
                where r.ctid = (
                    select h.ctid from pgq.ready h
                    where h.queue_id = queue.queue_id and h.rank between v_from[i] and v_to[i]
                    order by h.rank limit 1 for update skip locked)
                returning r.* into v_row;
                exit when not found;
                v_count := 1;
                v_suits := v_moment;
                v_total := v_row.size;
                v_size := v_row.size;
                v_set := v_row.ids;
                v_last := v_row.rank;
                v_plain := v_row.attempt = 0 and v_row.failures is null
                    and v_row.expires_at is null and not v_row.grouped;
                if not v_plain then
                    v_rows := array[v_row];
                end if;
            else
                -- ... or as many as hold v_left messages. Those behind the first are mostly no
                -- smaller.
                v_count := v_left;
                if v_size is distinct from 1 then
                    select count(*)::int into v_count
                    from (
                        select sum(p.size) over (order by p.rank rows unbounded preceding)
                            - p.size as ahead
                        from (
                            select q.rank, q.size from pgq.ready q
                            where q.queue_id = queue.queue_id
                              and q.rank between v_from[i] and v_to[i]
                            order by q.rank limit 1 + v_left / coalesce((
                                select h.size from pgq.ready h
                                where h.queue_id = queue.queue_id
                                  and h.rank between v_from[i] and v_to[i]
                                order by h.rank limit 1), 1)
                        ) p
                    ) s
                    where s.ahead < v_left;
                end if;
                select array_agg(g.ctid), count(*)::int, sum(g.size)::int, min(g.rank),
                       max(g.rank),
                       bool_and(g.attempt = 0 and g.failures is null and g.expires_at is null
                                and not g.grouped) and min(g.rank) >> 49 = max(g.rank) >> 49
                into v_gone, v_count, v_total, v_first, v_last, v_plain
                from (
                    select r.ctid, r.* from pgq.ready r
                    where r.queue_id = queue.queue_id and r.rank between v_from[i] and v_to[i]
                    order by r.rank
                    limit v_count
                    for update skip locked
                ) g;
                exit when v_count = 0;

                -- Mostly they are alike, and together one set, of which the end may be too much.
                if v_plain then
                    if v_total > v_left then
                        select r.* into v_row from pgq.ready r where r.ctid = v_gone[v_count];
                        v_plain := v_total - v_row.size < v_left;
                    end if;
                end if;
                if not v_plain then
                    select array_agg(r order by r.rank) into v_rows
                    from pgq.ready r where r.ctid = any (v_gone);
                end if;
                v_suits := 0::bigint;
                if v_total = v_count and v_last - v_first = v_count - 1 then
                    -- One message a row, one behind the other: the ranks tell the ids.
                    v_suits := v_moment;
                    delete from pgq.ready r where r.ctid = any (v_gone);
                    v_first := v_first & 562949953421311;
                    v_set := int8multirange(int8range(v_first, v_first + v_count));
                else
                    with gone as (
                        delete from pgq.ready r where r.ctid = any (v_gone) returning r.ids
                    )
                    select range_agg(g.ids) into v_set from gone g;
                end if;
                v_size := v_total / v_count;
            end if;
            v_more := v_more - v_count;
            if v_plain then
                if v_total > v_left then
                    v_rest := v_row.ids
                        - pgq._first_ids(v_row.ids, v_left - (v_total - v_row.size));
                    perform pgq._put_back(v_row, v_rest);
                    v_set := v_set - v_rest;
                end if;
                if v_stretch = v_last >> 49 then
                    v_sets[cardinality(v_sets)] := v_sets[cardinality(v_sets)] + v_set;
                else
                    v_sets := v_sets || v_set;
                    v_attempts := v_attempts || 0;
                    v_failures := array_append(v_failures, null);
                    v_grouped := v_grouped || false;
                    v_stretch := v_last >> 49;
                end if;
                v_left := greatest(v_left - v_total, 0);
                exit when v_left = 0;
                continue;
            end if;

            v_stretch := null;
            foreach v_row in array v_rows loop
                if v_left = 0 then
                    perform pgq._put_back(v_row, v_row.ids);
                    continue;
                end if;
                if v_row.expires_at <= now then
                    perform pgq._expire(queue, v_row.ids, v_row.attempt, v_row.failures,
                                        v_row.grouped, now);
                    continue;
                end if;
                v_set := v_row.ids;
                if v_row.size > v_left then
                    v_set := pgq._first_ids(v_row.ids, v_left);
                    perform pgq._put_back(v_row, v_row.ids - v_set);
                end if;
                v_left := greatest(v_left - v_row.size, 0);
                v_sets := v_sets || v_set;
                v_attempts := v_attempts || v_row.attempt;
                v_failures := array_append(v_failures, v_row.failures);
                v_grouped := v_grouped || v_row.grouped;
            end loop;
            exit when v_left = 0;
        end loop;
        exit when v_left = 0;
    end loop;

    if v_left = n then
        -- What can still be seen is being taken by others; of a set they may leave a part.
        v_missed := array(
            select r.ctid from pgq.ready r
            where r.queue_id = queue.queue_id and r.size > 1 order by r.rank limit 1);
    end if;
    if v_left > 0 then
        v_head := v_none;
        v_more := 512::bigint;
    elsif (v_last >> 49) & 1 = 1 and v_class <> (v_last >> 49) << 49 then
        -- The stretch of the last row: 2^49 ranks, and in the odd ones stands what is fresh.
        v_class := (v_last >> 49) << 49;
        v_head := v_none;
        v_more := least(v_more, 512);
    end if;
    v_memory := set_config(  -- an assignment is cheaper than a statement
        'pgq.head', array[queue.queue_id, v_class, v_head, v_more,
                          case when v_head <> v_none then v_until else v_second + 60 end, v_size,
                          v_suits, v_number, v_before]::text,
        false)::bigint[];
    return row(n - v_left, v_sets, v_attempts, v_failures, v_grouped, v_missed)::pgq._taken;
end
$$;
comment on function pgq._take(pgq.queue, int, timestamptz) is
    'Takes up to n messages off the head of a queue.';
revoke all on function pgq._take(pgq.queue, int, timestamptz) from public;

-- sql/50_claim/take_back.sql

-- Gives back what expired leases hold, a bounded amount of it; returns how many messages.
create function pgq._take_back(queue pgq.queue, most int, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
declare
    v_lease pgq.lease;
    v_part int8multirange;
    v_count int := 0;
begin
    for v_lease in
        select l.* from pgq.lease l
        where l.lease_id < pgq._lease_second(now + interval '1 s')
          and l.queue_id = queue.queue_id and l.until <= now
        order by l.lease_id limit 100 for update skip locked
    loop
        exit when v_count >= most;
        -- A failed dead-letter write must neither lose the message nor stop the claim.
        begin
            if v_lease.size > most then
                v_part := pgq._first_ids(v_lease.ids, most);
                update pgq.lease l set ids = l.ids - v_part, size = l.size - most
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
                v_lease.ids := v_part;
                v_lease.size := most;
            else
                delete from pgq.lease l
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            end if;
            perform pgq._retry(queue, v_lease, 'timeout', interval '0', null, null, now);
            v_count := v_count + v_lease.size;
        exception
            when query_canceled or admin_shutdown or crash_shutdown then
                raise;
            when others then
                raise warning 'lease % could not be taken back: %', v_lease.lease_id, sqlerrm
                    using errcode = sqlstate,
                          hint = 'Its messages stay leased and are tried again by later claims.';
        end;
    end loop;
    return v_count;
end
$$;
comment on function pgq._take_back(pgq.queue, int, timestamptz) is
    'Gives back what expired leases hold.';
revoke all on function pgq._take_back(pgq.queue, int, timestamptz) from public;

-- sql/50_claim/take_matching.sql

-- Takes up to n messages that match a filter, in order, skipping what others are taking.
--
-- Ready rows are looked at without a lock; only those that hold a match are locked, and what does
-- not match in them goes back at once. How far the filter has looked is remembered with the
-- snapshot it looked with: the next claim looks at what stands behind that point, and at rows that
-- the snapshot could not see, wherever they stand.
create function pgq._take_matching(
    queue pgq.queue, document jsonb, n int, now timestamptz
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._keep_filter(document, queue.lane_keys);
    v_taken pgq._taken;
    v_left int := n;
    v_count int := 0;
    v_kept record;
    v_scan pgq.filter_scan;
    -- A transaction that has written already could write more under the same xid: its snapshot
    -- does not tell before from after, so it is not remembered. Nor is what a filter with a clock
    -- has seen: what does not match now may match later; nor what an old snapshot has seen, for
    -- which messages are missing that were carried out of an era meanwhile.
    v_snapshot pg_snapshot := case
        when pg_current_xact_id_if_assigned() is null and document::text !~ E'"\\$now"'
             and current_setting('transaction_isolation') = 'read committed'
        then pg_current_snapshot() end;
    v_unseen pg_snapshot;
    v_after bigint := -9223372036854775808;
    v_before bigint;
    v_stop bigint;
    v_messages int := 4 * n + 16;
    v_chunk record;
    v_locked tid[];
    v_row pgq.ready;
    v_match int8multirange;
    v_tested bigint := 0::bigint;
begin
    v_taken.size := 0;
    v_kept := pgq._keep_lanes(queue, v_filter);
    if v_kept.lanes = '{}' and not queue.unlaned_rows then
        return v_taken;
    end if;
    if v_filter.filter_id is not null
       and (v_kept.lanes is null or queue.unlaned_rows or v_kept.lanes <> v_kept.sure)
    then
        select s.* into v_scan from pgq.filter_scan s
        where s.filter_id = v_filter.filter_id and s.queue_id = queue.queue_id;
        v_unseen := v_scan.snapshot;
        v_before := v_scan.rank;
    end if;

    <<chunk>>
    loop
        select array_agg(p.row order by p.rank) as rows, array_agg(p.rank order by p.rank) as ranks,
               array_agg(p.size order by p.rank) as sizes,
               array_agg(t.ids order by p.rank) as matches,
               array_agg(p.row order by p.rank) filter (where t.ids is not null) as wanted,
               max(p.rank) as last,
               coalesce(sum(p.size) filter (
                   where p.lane_id is null or p.lane_id <> all (coalesce(v_kept.sure, '{}'))), 0)
                   as tested
        into v_chunk
        from pgq._peek_rows(queue.queue_id, v_kept.lanes, v_kept.by_lane, v_unseen, v_after,
                            v_before, v_messages) p
        cross join lateral (
            select case
                when p.lane_id = any (v_kept.sure) then p.ids
                else (
                    select range_agg(int8range(m.id, m.id + 1))
                    from unnest(p.ids) r
                    join pgq.message m on m.id >= lower(r) and m.id < upper(r)
                    where pgq._test_filter(
                        v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority,
                        m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                        p.attempt + 1, m.published_at, m.expires_at, m.id, now))
            end as ids
        ) t;
        if v_chunk.rows is null then
            exit when v_unseen is null;
            -- All that is new has been looked at; now what stands behind the remembered point.
            v_unseen := null;
            v_after := v_before - 1;
            continue;
        end if;
        v_tested := v_tested + v_chunk.tested;

        if v_chunk.wanted is not null then
            -- No more rows than are needed: as many as hold v_left matches.
            select array_agg(w.row) into v_chunk.wanted
            from (
                select u.row, sum(pgq._set_size(u.ids)) over (order by u.i)
                              - pgq._set_size(u.ids) as ahead
                from unnest(v_chunk.rows, v_chunk.matches) with ordinality u ("row", ids, i)
                where u.ids is not null
            ) w
            where w.ahead < v_left;
            v_locked := array(
                select r.ctid from pgq.ready r
                where r.ctid = any (v_chunk.wanted) and r.queue_id = queue.queue_id
                for update skip locked);
            for i in 1 .. cardinality(v_chunk.rows) loop
                continue when v_chunk.matches[i] is null;
                if v_left = 0 then
                    v_stop := least(v_stop, v_chunk.ranks[i]);
                    exit chunk;
                end if;
                if v_chunk.rows[i] <> all (v_chunk.wanted) then
                    -- Others were faster at some that were wanted, so this one is needed after all.
                    v_after := v_chunk.ranks[i] - 1;
                    continue chunk;
                end if;
                if v_chunk.rows[i] <> all (v_locked) then
                    v_stop := least(v_stop, v_chunk.ranks[i]);
                    if v_chunk.sizes[i] > 1 then
                        v_taken.missed := v_taken.missed || v_chunk.rows[i];
                    end if;
                    continue;
                end if;
                delete from pgq.ready r where r.ctid = v_chunk.rows[i] returning r.* into v_row;
                if v_row.expires_at <= now then
                    perform pgq._expire(queue, v_row.ids, v_row.attempt, v_row.failures,
                                        v_row.grouped, now);
                    continue;
                end if;
                v_match := pgq._first_ids(v_chunk.matches[i] * v_row.ids, v_left);
                if v_match <> v_row.ids then
                    perform pgq._put_back(v_row, v_row.ids - v_match);
                end if;
                v_left := v_left - pgq._set_size(v_match);
                v_count := v_count + 1;
                v_taken.sets[v_count] := v_match;
                v_taken.attempts[v_count] := v_row.attempt;
                v_taken.failures[v_count] := v_row.failures;
                v_taken.grouped[v_count] := v_row.grouped;
            end loop;
        end if;
        v_after := v_chunk.last;
        exit when v_left = 0;
        v_messages := least(v_messages * 4, 100000);
    end loop;
    v_taken.size := n - v_left;
    if v_tested = 0 and v_taken.size = 0 then
        return v_taken;
    end if;

    if v_filter.filter_id is not null then
        insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at,
                                    last_at)
        values (v_filter.filter_id, queue.queue_id, 1, v_tested, v_taken.size, now,
                case when v_taken.size > 0 then now end);
        -- Not while new rows are left that stand before the point: the old memory stays right.
        -- Nor if the lanes have changed since the queue was read, before the snapshot was taken:
        -- there may be rows then that were not looked for.
        if v_tested >= 500 and v_unseen is null and v_snapshot is not null
           and exists (select from pgq.queue q
                       where q.queue_id = queue.queue_id
                         and q.lane_keys is not distinct from queue.lane_keys
                         and q.unlaned_rows = queue.unlaned_rows)
        then
            perform pgq._remember_scan(
                v_filter.filter_id, queue.queue_id, v_snapshot,
                least(v_stop, case when v_left = 0 then v_after + 1 else 9223372036854775807 end));
        end if;
    end if;
    if v_taken.size = 0 then
        perform pgq._warn_of_testing(queue, document, v_tested);
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_matching(pgq.queue, jsonb, int, timestamptz) is
    'Takes up to n messages that match a filter.';
revoke all on function pgq._take_matching(pgq.queue, jsonb, int, timestamptz) from public;

-- sql/50_claim/take_name.sql

-- Lets claims of one name wait for each other. A row that is inserted and deleted by a transaction
-- keeps others from inserting it until that has ended, and nothing is left to be tidied up.
create function pgq._take_name(queue_id int, key text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_what text := format('key %s %s', queue_id, hashtextextended(key, 0));
begin
    insert into pgq.turn (what) values (v_what) on conflict on constraint turn_pkey do nothing;
    delete from pgq.turn t where t.what = v_what;
end
$$;
comment on function pgq._take_name(int, text) is 'Lets claims of one name wait for each other.';
revoke all on function pgq._take_name(int, text) from public;

-- sql/50_claim/upkeep.sql

-- The part of upkeep that a queue's own consumers need; returns how many messages it moved.
create function pgq._upkeep(queue pgq.queue, most int, now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_expired boolean;
    v_due boolean;
    v_stalled boolean;
    v_count int := 0;
begin
    select exists (select from pgq.lease l
                   where l.lease_id < pgq._lease_second(now + interval '1 s')
                     and l.queue_id = queue.queue_id and l.until <= now),
           exists (select from pgq.scheduled s
                   where s.queue_id = queue.queue_id and s.due_at <= now),
           exists (select from pgq.group_stall g where g.queue_id = queue.queue_id)
    into v_expired, v_due, v_stalled;
    if v_stalled then
        v_count := v_count + pgq._move_on(queue, now);
    end if;
    if v_expired then
        v_count := v_count + pgq._take_back(queue, most, now);
    end if;
    if v_due then
        v_count := v_count + pgq._promote(queue, most, now);
    end if;
    return v_count;
end
$$;
comment on function pgq._upkeep(pgq.queue, int, timestamptz) is
    'Takes back expired leases and makes due messages ready, a bounded amount.';
revoke all on function pgq._upkeep(pgq.queue, int, timestamptz) from public;

-- sql/50_claim/wait_begin.sql

-- Registers a consumer that found nothing, so that publishing wakes it. Returns how long it may
-- sleep; no time at all means: claim again first.
--
-- The race: a publisher that looked for waiters before this one was registered commits after the
-- consumer looked for messages. So first the registration has to be committed (first call), then
-- everybody who may have missed it has to end (second call), then comes a last claim; after that
-- no message can arrive unannounced, as long as the registration lasts.
create function pgq.wait_begin(
    topic text, waiter text, timeout interval default '30 s',
    caller pgq.caller default current_user
) returns interval
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_begin.topic);
    v_now timestamptz := pgq.now();
    v_waiter pgq.waiter;
    v_due timestamptz;
begin
    if wait_begin.waiter is null or wait_begin.waiter = '' or length(wait_begin.waiter) > 255 then
        raise exception 'a waiter needs a name of at most 255 characters'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use something that no other consumer uses, such as a UUID.';
    end if;
    if timeout is null or timeout <= interval '0' then
        raise exception 'timeout must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'It is the longest time that the consumer sleeps without polling.';
    end if;
    select w.* into v_waiter from pgq.waiter w
    where w.queue_id = v_queue.queue_id and w.waiter = wait_begin.waiter and w.until > v_now;
    if not found then
        insert into pgq.waiter as w (queue_id, waiter, until)
        values (v_queue.queue_id, wait_begin.waiter, v_now + 2 * timeout)
        on conflict on constraint waiter_pkey do update
        set until = excluded.until, horizon = null, armed = false;
        -- The dead are swept by the living, if nobody calls maintain().
        delete from pgq.waiter w
        where w.ctid = any (array(
            select s.ctid from pgq.waiter s
            where s.queue_id = v_queue.queue_id and s.until < v_now - interval '1 min'
            for update skip locked));
        return interval '0';
    end if;
    if not v_waiter.armed then
        v_waiter.horizon := coalesce(v_waiter.horizon, pg_current_xact_id());
        v_waiter.armed := v_waiter.horizon <= pg_snapshot_xmin(pg_current_snapshot());
        update pgq.waiter w
        set until = case when w.until < v_now + timeout then v_now + 2 * timeout else w.until end,
            horizon = v_waiter.horizon, armed = v_waiter.armed
        where w.queue_id = v_queue.queue_id and w.waiter = wait_begin.waiter;
        -- Somebody may be at it for hours: the longer it takes, the less often to look. What is
        -- published meanwhile is notified.
        return case when v_waiter.armed then interval '0' else least(timeout, greatest(
            interval '20 ms', (v_now + 2 * timeout - v_waiter.until) / 10)) end;
    end if;
    if v_waiter.until < v_now + timeout then
        update pgq.waiter w set until = v_now + 2 * timeout
        where w.queue_id = v_queue.queue_id and w.waiter = wait_begin.waiter;
    end if;
    if v_queue.paused then
        return timeout;  -- resume wakes it
    end if;
    -- Not beyond the moment when something becomes due or a lease ends; soon, if a group waits for
    -- a publisher to end, who may say nothing.
    select least(
        (select v_now + interval '100 ms' from pgq.group_stall g
         where g.queue_id = v_queue.queue_id limit 1),
        (select min(s.due_at) from pgq.scheduled s where s.queue_id = v_queue.queue_id),
        -- Tokens are in the order of expiry, so the first ones tell.
        (select min(l.until)
         from (select k.queue_id, k.until from pgq.lease k order by k.lease_id limit 1000) l
         where l.queue_id = v_queue.queue_id and l.until < 'infinity'))
    into v_due;
    -- What is due and was not claimed is with somebody else: not in circles.
    return least(timeout, greatest(coalesce(v_due - v_now, timeout), interval '20 ms'));
end
$$;
comment on function pgq.wait_begin(text, text, interval, pgq.caller) is
    'Call it, in a transaction of its own, after a claim that found nothing; LISTEN to pgq before, '
    'for the name of the queue and for pgq.signal(topic). '
    'Returns how long to sleep: until notified, or for that time, at most the timeout; no time at '
    'all means to claim again at once. The waiter is a name that no other consumer uses.';
revoke all on function pgq.wait_begin(text, text, interval, pgq.caller) from public;

-- sql/50_claim/wait_end.sql

-- The consumer is awake: publishing need not notify it.
create function pgq.wait_end(
    topic text, waiter text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_end.topic);
begin
    delete from pgq.waiter w
    where w.queue_id = v_queue.queue_id and w.waiter = wait_end.waiter;
    return found;
end
$$;
comment on function pgq.wait_end(text, text, pgq.caller) is
    'Call it when a consumer has woken up and found work: busy queues do not pay for '
    'notifications. '
    'False if it was not waiting.';
revoke all on function pgq.wait_end(text, text, pgq.caller) from public;

-- sql/50_claim/warn_of_testing.sql

-- One WARNING a minute and session about a filter that tests many messages and finds nothing.
create function pgq._warn_of_testing(queue pgq.queue, document jsonb, tested bigint)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit text := coalesce(nullif(current_setting('pgq.warn_after_tests', true), ''), '10000');
    v_minute text := floor(extract(epoch from pgq.now()) / 60)::text;
begin
    if v_limit !~ E'^\\d{1,18}$' or v_limit::bigint = 0 or tested < v_limit::bigint
       or current_setting('pgq.warned', true) = v_minute
    then
        return;
    end if;
    perform set_config('pgq.warned', v_minute, false);
    raise warning 'a claim on queue "%" tested % messages and none matches', queue.name, tested
        using detail = format('The filter is %s.', left(document::text, 500)),
              hint = format('select * from pgq.explain_filter(%L, filter) tells what to do. '
                  'Set pgq.warn_after_tests to 0 to hear no more of it.', queue.name);
end
$$;
comment on function pgq._warn_of_testing(pgq.queue, jsonb, bigint) is
    'Warns of a filter that tests many messages and finds nothing.';
revoke all on function pgq._warn_of_testing(pgq.queue, jsonb, bigint) from public;

-- sql/55_stream/00_batch_key.sql

-- The name of the claim that is a batch of a stream.
create function pgq._batch_key(consumer text, batch bigint) returns text
language sql immutable parallel safe
return 'stream ' || consumer || ' ' || batch;
comment on function pgq._batch_key(text, bigint) is
    'The name of the claim that is a batch of a stream.';
revoke all on function pgq._batch_key(text, bigint) from public;

-- sql/55_stream/10_stream_begin.sql

-- Takes a consumer's name, or keeps it: an owner calls this again and again while it lives.
create function pgq.stream_begin(
    topic text, consumer text, owner text, timeout interval default '30 s',
    lease interval default null, caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_begin.topic);
    v_now timestamptz := pgq.now();
    v_stream pgq.stream;
begin
    if consumer is null or consumer = '' or length(consumer) > 200 or owner is null then
        raise exception 'a stream needs a consumer of at most 200 characters, and an owner'
            using errcode = 'invalid_parameter_value',
                  hint = 'The consumer is a name that stays; the owner tells processes apart.';
    end if;
    if timeout is null or timeout <= interval '0' or stream_begin.lease <= interval '0' then
        raise exception 'timeout and lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'An owner that is silent for the timeout loses the name.';
    end if;
    insert into pgq.stream as s (queue_id, consumer, batch, owner, until)
    values (v_queue.queue_id, stream_begin.consumer, 0, stream_begin.owner, v_now + timeout)
    on conflict on constraint stream_pkey do update
    set owner = excluded.owner, until = excluded.until
    where s.owner is null or s.owner = excluded.owner or s.until <= v_now
    returning s.* into v_stream;
    if not found then
        select s.* into v_stream from pgq.stream s
        where s.queue_id = v_queue.queue_id and s.consumer = stream_begin.consumer;
        raise exception 'consumer "%" of queue "%" is in use', consumer, topic
            using errcode = 'object_in_use',
                  detail = format('%s has it until %s, and renews it.', v_stream.owner,
                                  v_stream.until),
                  hint = 'Stop the other one, or give this one a name of its own.';
    end if;
    if stream_begin.lease is not null then
        update pgq.lease l set until = v_now + stream_begin.lease
        where l.queue_id = v_queue.queue_id
          and l.key = pgq._batch_key(stream_begin.consumer, v_stream.batch + 1)
          and l.until < v_now + stream_begin.lease;
    end if;
    return v_stream.batch;
end
$$;
comment on function pgq.stream_begin(text, text, text, interval, interval, pgq.caller) is
    'Takes the name of a consumer that works in numbered batches, and returns the last batch that '
    'it has finished (0: none). To be repeated by the owner before the timeout is over, which '
    'with a lease also extends the batch at work; 55006 if another owner has the name.';
revoke all on function pgq.stream_begin(text, text, text, interval, interval, pgq.caller)
    from public;

-- sql/55_stream/20_stream_finish.sql

-- Acknowledges the batches of a stream up to this one.
create function pgq.stream_finish(
    topic text, consumer text, owner text, batch bigint,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_finish.topic);
    v_stream pgq.stream;
    v_lease_id bigint;
    v_count int := 0;
begin
    select s.* into v_stream from pgq.stream s
    where s.queue_id = v_queue.queue_id and s.consumer = stream_finish.consumer for update;
    if v_stream.owner is distinct from stream_finish.owner or v_stream.owner is null then
        raise exception 'consumer "%" of queue "%" belongs to somebody else now', consumer, topic
            using errcode = 'object_in_use',
                  hint = 'It was silent for longer than its timeout, and another one took over.';
    end if;
    if stream_finish.batch is null or stream_finish.batch <= v_stream.batch then
        return 0;
    end if;
    for v_lease_id in
        select distinct l.lease_id
        from generate_series(v_stream.batch + 1, least(stream_finish.batch, v_stream.batch + 1000))
            b
        join pgq.lease l on l.queue_id = v_queue.queue_id
            and l.key = pgq._batch_key(stream_finish.consumer, b)
    loop
        v_count := v_count + pgq.ack(v_lease_id);
    end loop;
    update pgq.stream s set batch = stream_finish.batch
    where s.queue_id = v_queue.queue_id and s.consumer = stream_finish.consumer;
    return v_count;
end
$$;
comment on function pgq.stream_finish(text, text, text, bigint, pgq.caller) is
    'Acknowledges what the batches of a stream still hold, up to and with this one. Returns how '
    'many messages; 0 if they were finished before. 55006 if the name has another owner.';
revoke all on function pgq.stream_finish(text, text, text, bigint, pgq.caller) from public;

-- sql/55_stream/30_stream_claim.sql

-- Finishes the batches before this one and claims it: the same messages every time, until it is
-- finished.
create function pgq.stream_claim(
    topic text, consumer text, owner text, batch bigint, filter jsonb default null,
    n int default 1000, lease interval default null,
    caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', stream_claim.topic);
    end if;
    perform pgq.stream_finish(stream_claim.topic, stream_claim.consumer, stream_claim.owner,
                              stream_claim.batch - 1);
    if stream_claim.batch is null or exists (
        select from pgq.stream s join pgq.queue q on q.queue_id = s.queue_id
        where q.name = stream_claim.topic and s.consumer = stream_claim.consumer
          and s.batch >= stream_claim.batch)
    then
        raise exception 'batch % of consumer "%" is finished', stream_claim.batch,
            stream_claim.consumer
            using errcode = 'QU003',
                  hint = 'The checkpoint is older than what the consumer has acknowledged.';
    end if;
    return query
        select h.lease_id, h.size
        from pgq.hold(stream_claim.topic,
                      pgq._batch_key(stream_claim.consumer, stream_claim.batch),
                      stream_claim.filter, stream_claim.n, stream_claim.lease) h;
end
$$;
comment on function pgq.stream_claim(text, text, text, bigint, jsonb, int, interval, pgq.caller) is
    'Claims a numbered batch of a stream, after finishing those before it, and returns its lease '
    'and size; no row if there is nothing to claim. The same batch returns the same messages until '
    'it is finished. Without a lease it has no end. QU003 if the batch is finished, 55006 if the '
    'name has another owner.';
revoke all on function pgq.stream_claim(text, text, text, bigint, jsonb, int, interval, pgq.caller)
    from public;

-- sql/55_stream/40_stream_batch.sql

-- The lease of a batch that was claimed.
create function pgq.stream_batch(
    topic text, consumer text, batch bigint, caller pgq.caller default current_user)
returns table (lease_id bigint, size bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_batch.topic);
begin
    return query
        select l.lease_id, sum(l.size) from pgq.lease l
        where l.queue_id = v_queue.queue_id
          and l.key = pgq._batch_key(stream_batch.consumer, stream_batch.batch)
        group by l.lease_id;
end
$$;
comment on function pgq.stream_batch(text, text, bigint, pgq.caller) is
    'The lease and size of a batch of a stream that is claimed and not finished; else no row.';
revoke all on function pgq.stream_batch(text, text, bigint, pgq.caller) from public;

-- sql/55_stream/50_stream_end.sql

-- Gives a consumer's name free; its batches stay claimed for whoever takes it next.
create function pgq.stream_end(
    topic text, consumer text, owner text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_end.topic);
begin
    update pgq.stream s set owner = null
    where s.queue_id = v_queue.queue_id and s.consumer = stream_end.consumer
      and s.owner = stream_end.owner;
    return found;
end
$$;
comment on function pgq.stream_end(text, text, text, pgq.caller) is
    'Gives the name of a stream''s consumer free. A batch that is not finished stays claimed for '
    'whoever takes the name next. False if the name had another owner.';
revoke all on function pgq.stream_end(text, text, text, pgq.caller) from public;

-- sql/55_stream/60_relay_report.sql

-- A relay says how its destination is doing; without a destination it is forgotten.
create function pgq.relay_report(
    topic text, relay text, destination text default null, circuit text default 'closed',
    error text default null, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', relay_report.topic);
begin
    if relay is null or relay = '' or length(relay) > 200 then
        raise exception 'a relay needs a name of at most 200 characters'
            using errcode = 'invalid_parameter_value',
                  hint = 'It is the name of its stream, and stays the same when it is restarted.';
    end if;
    if circuit is null or circuit not in ('closed', 'open', 'half-open') then
        raise exception 'a circuit is closed, open or half-open, not %',
            coalesce(circuit, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'To have the relay forgotten leave out the destination.';
    end if;
    if destination is null then
        delete from pgq.relay r
        where r.queue_id = v_queue.queue_id and r.relay = relay_report.relay;
        return;
    end if;
    insert into pgq.relay as r (queue_id, relay, destination, circuit, error, changed_at)
    values (v_queue.queue_id, relay_report.relay, left(relay_report.destination, 1000),
            relay_report.circuit, left(relay_report.error, 2000), pgq.now())
    on conflict on constraint relay_pkey do update
    set destination = excluded.destination, circuit = excluded.circuit, error = excluded.error,
        changed_at = case when r.circuit = excluded.circuit then r.changed_at
                          else excluded.changed_at end;
end
$$;
comment on function pgq.relay_report(text, text, text, text, text, pgq.caller) is
    'Notes what a relay says of its destination (written without its password): whether the '
    'circuit breaker is closed, open or half-open, and the last error. pgq.relays and '
    'pgq.queue_stats show it. Without a destination the relay is forgotten.';
revoke all on function pgq.relay_report(text, text, text, text, text, pgq.caller) from public;

-- sql/60_dead_letter/dead_letters.sql

-- The dead letters of a queue that match a filter, the oldest first; locked, if they are to be
-- taken, and then without those that somebody else is taking.
create function pgq._dead_letters(queue_id int, filter jsonb, n int, taken boolean)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_now timestamptz := pgq.now();
    v_found bigint[];
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value', hint = 'Leave it out for all of them.';
    end if;
    v_filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_found := array(
        select d.dead_letter_id from pgq.dead_letter d
        where d.queue_id = _dead_letters.queue_id
          and pgq._test_filter(
              v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority, d.sender,
              d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts, d.published_at,
              d.expires_at, d.message_id, v_now)
        order by d.failed_at, d.dead_letter_id limit n);
    if taken then
        v_found := array(
            select d.dead_letter_id from pgq.dead_letter d
            where d.dead_letter_id = any (v_found) for update skip locked);
    end if;
    return v_found;
end
$$;
comment on function pgq._dead_letters(int, jsonb, int, boolean) is
    'The dead letters of a queue that match a filter.';
revoke all on function pgq._dead_letters(int, jsonb, int, boolean) from public;

-- sql/60_dead_letter/discard.sql

-- Deletes dead letters, the oldest first.
create function pgq.discard(
    topic text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', discard.topic);
    v_letters bigint[] := pgq._dead_letters(v_queue.queue_id, filter, n, not dry_run);
    v_gone record;
    v_group record;
    v_next record;
begin
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    with gone as (
        delete from pgq.dead_letter d where d.dead_letter_id = any (v_letters)
        returning d.message_id, d.group_key
    )
    select range_agg(int8range(g.message_id, g.message_id + 1)) as ids,
           jsonb_object_agg(g.message_id, g.group_key) filter (where g.group_key is not null)
               as groups
    into v_gone from gone g;
    insert into pgq.journal (at, queue_id, event, attempt, size, holder, client, ids)
    values (pgq.now(), v_queue.queue_id, 'discard', 0, cardinality(v_letters),
            nullif(current_setting('application_name'), ''), inet_client_addr(), v_gone.ids);
    insert into pgq.outcome (queue_id, event, size)
    values (v_queue.queue_id, 'discard', cardinality(v_letters));
    -- What a dead letter has blocked can go on.
    for v_group in select e.key::bigint as id, e.value from jsonb_each_text(v_gone.groups) e loop
        v_next := pgq._advance_group(v_queue.queue_id, v_group.value, v_group.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (v_queue.queue_id, v_group.value, v_group.id);
        elsif v_next.next_id is not null then
            perform pgq._admit_heads(
                v_queue, array[v_next.next_id], v_next.failures, pgq.now());
        end if;
    end loop;
    return cardinality(v_letters);
end
$$;
comment on function pgq.discard(text, jsonb, int, boolean, pgq.caller) is
    'Deletes dead letters of a queue that match the filter, at most n, the oldest first, for good. '
    'Returns how many; dry_run only counts.';
revoke all on function pgq.discard(text, jsonb, int, boolean, pgq.caller) from public;

-- sql/60_dead_letter/replay.sql

-- Dead letters back to their queue, the oldest first.
create function pgq.replay(
    topic text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', replay.topic);
    v_now timestamptz := pgq.now();
    v_letters bigint[] := pgq._dead_letters(v_queue.queue_id, filter, n, not dry_run);
    v_set record;
begin
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    -- The log may have forgotten the message; the dead letter has all of it. Another queue may have
    -- the same message dead and bring it back at this moment: one after the other.
    if exists (select from pgq.dead_letter d
               where d.dead_letter_id = any (v_letters)
                 and not exists (select from pgq.message m where m.id = d.message_id))
    then
        perform pgq._refuse_snapshot();
        perform pgq._take_turn('replay');
    end if;
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, published_at, publisher)
    select d.message_id, d.topic, d.priority, d.headers, d.payload, d.sender, d.recipient,
           d.reply_to, d.correlation_id, d.group_key, d.dedup_key, 'infinity', d.expires_at,
           d.published_at, null
    from pgq.dead_letter d
    where d.dead_letter_id = any (v_letters)
      and not exists (select from pgq.message m where m.id = d.message_id);

    for v_set in
        with gone as (
            delete from pgq.dead_letter d where d.dead_letter_id = any (v_letters)
            returning d.message_id, d.failures, d.expires_at <= v_now as expired, d.group_key
        )
        -- By group and id, because the first of a group that comes becomes its head.
        select g.failures, coalesce(g.expired, false) as expired, g.group_key,
               count(*)::int as size, range_agg(int8range(g.message_id, g.message_id + 1)) as ids,
               array_agg(g.message_id order by g.message_id) as list
        from gone g group by 1, 2, 3 order by g.group_key, min(g.message_id)
    loop
        v_set.failures := pgq._failure(
            v_set.failures, 'replay', null, null, null, null, null, v_now);
        if v_set.group_key is not null then
            -- Back into its group: at its head if it has blocked it, else in line. If it was to be
            -- moved on from here, it no longer is.
            delete from pgq.group_stall s
            where s.queue_id = v_queue.queue_id and s.message_id = any (v_set.list);
            perform pgq._admit_heads(
                v_queue, pgq._join_groups(v_queue.queue_id, v_set.list, v_set.failures),
                v_set.failures, v_now);
        else
            perform pgq._enqueue(v_queue, v_set.ids, 0, v_set.failures, false, v_set.expired);
        end if;
        insert into pgq.journal (at, queue_id, event, attempt, size, holder, client, ids)
        values (v_now, v_queue.queue_id, 'replay', 0, v_set.size,
                nullif(current_setting('application_name'), ''), inet_client_addr(), v_set.ids);
    end loop;
    insert into pgq.outcome (queue_id, event, size)
    values (v_queue.queue_id, 'replay', cardinality(v_letters));
    return cardinality(v_letters);
end
$$;
comment on function pgq.replay(text, jsonb, int, boolean, pgq.caller) is
    'Puts dead letters of a queue that match the filter, at most n, back into the queue with all '
    'their attempts, the oldest first. Returns how many; dry_run only counts. What fails again '
    'comes back with its replay_count and its whole history.';
revoke all on function pgq.replay(text, jsonb, int, boolean, pgq.caller) from public;

-- sql/70_maintain/archive_next.sql

-- The oldest closed era that has not been archived, with only finished messages in it: others are
-- carried into the current era first, so that what is read from it stays what it is.
create function pgq.archive_next()
returns table (era bigint, started_at timestamptz, slot int, messages bigint, low bigint,
               high bigint, unused text[])
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_era pgq.era;
    v_counts bigint[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the archive reads under READ COMMITTED only'
            using errcode = 'feature_not_supported',
                  hint = 'An older snapshot does not see what was carried forward.';
    end if;
    perform pgq._take_turn('era');
    select e.* into v_era from pgq.era e
    where e.number < pg_sequence_last_value('pgq.era_number') and e.emptied_at is null
      and e.archived_at is null
    order by e.number limit 1;
    if not found then
        return;
    end if;
    -- Waits for publishers that began when the era was the current one.
    case v_era.slot
        when 0 then lock table only pgq.message_0 in share row exclusive mode;
        when 1 then lock table only pgq.message_1 in share row exclusive mode;
        when 2 then lock table only pgq.message_2 in share row exclusive mode;
    end case;
    perform pgq._carry_forward(v_era.slot, 2147483647);
    -- A loop over one row of counts, because a query that is assigned never runs in parallel.
    foreach v_counts slice 1 in array (
        select array[count(*), coalesce(sum(pgq._checksum(m)), 0)::bigint, min(m.id), max(m.id),
                     count(m.sender), count(m.recipient), count(m.reply_to),
                     count(m.correlation_id), count(m.group_key), count(m.expires_at)]
        from pgq.message m where m.era = v_era.slot)
    loop
        update pgq.era e set messages = v_counts[1], checksum = v_counts[2]
        where e.number = v_era.number;
        return query
            select v_era.number, v_era.started_at, v_era.slot::int, v_counts[1], v_counts[3],
                   v_counts[4], array(
                       select u.name
                       from unnest('{sender,recipient,reply_to,correlation_id,group_key,expires_at}'
                                   ::text[], v_counts[5:]) u (name, used)
                       where u.used = 0);
    end loop;
end
$$;
comment on function pgq.archive_next() is
    'The oldest era of the log that is closed and not archived: its number, its slot (the column '
    'era of pgq.message), how many messages to copy from it, and the columns that are null in all '
    'of them and need not be copied. All of them are finished; what is not is carried into the '
    'current era. No row: everything is archived.';
revoke all on function pgq.archive_next() from public;

-- sql/70_maintain/archive_wait.sql

-- Lets eras wait for the archive, this long; null: for nobody.
create function pgq.archive_wait(wait interval) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if wait < interval '0' or not isfinite(wait) then
        raise exception 'wait must be finite and not negative'
            using errcode = 'invalid_parameter_value',
                  hint = 'It is how long the log may grow while the archive does not run.';
    end if;
    lock table pgq.archive in share row exclusive mode;
    delete from pgq.archive;
    insert into pgq.archive (wait) select archive_wait.wait where archive_wait.wait is not null;
end
$$;
comment on function pgq.archive_wait(interval) is
    'From now on an era of the log is kept beyond its retention until pgq.archived has confirmed '
    'a copy of it, but for no longer than the wait. Null: eras wait for nobody.';
revoke all on function pgq.archive_wait(interval) from public;

-- sql/70_maintain/archived.sql

-- Confirms the copy of an era, if it has as many messages and the same checksum.
create function pgq.archived(era bigint, messages bigint, checksum bigint)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_era pgq.era;
    v_messages bigint;
begin
    perform pgq._take_turn('era');
    select e.* into v_era from pgq.era e
    where e.number = archived.era and e.number < pg_sequence_last_value('pgq.era_number')
      and e.emptied_at is null;
    if not found then
        raise exception 'era % is not there to be archived', archived.era
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'It was emptied, or is not closed yet. Let eras wait for the archive '
                      'with pgq.archive_wait.';
    end if;
    -- That there are still as many messages shows that nobody has published into it since.
    -- As a condition, because a query that is assigned never runs in parallel.
    if (messages, checksum, (select count(*) from pgq.message m where m.era = v_era.slot))
       is distinct from (v_era.messages, v_era.checksum, v_era.messages)
    then
        select count(*) into v_messages from pgq.message m where m.era = v_era.slot;
        raise exception 'the copy of era % is not what the era holds', archived.era
            using errcode = 'data_corrupted',
                  detail = format('%s messages with checksum %s were copied; there were %s with %s '
                                  'to be copied, and there are %s now.',
                                  messages, checksum, v_era.messages, v_era.checksum, v_messages),
                  hint = 'Copy it again, as pgq.archive_next gives it.';
    end if;
    update pgq.era e set archived_at = pgq.now() where e.number = archived.era;
end
$$;
comment on function pgq.archived(bigint, bigint, bigint) is
    'Confirms that an era has been copied: it may be emptied then. XX001 unless the number of '
    'messages and the checksum are those of the era when pgq.archive_next gave it. The checksum is '
    'the sum over its messages of the first 8 hexadecimal digits of '
    'md5(id|topic|priority|headers|payload|microseconds of published_at).';
revoke all on function pgq.archived(bigint, bigint, bigint) from public;

-- sql/70_maintain/maintain.sql

-- All upkeep at once, in bounded amounts. Queues work without it: claims do what cannot wait.
create procedure pgq.maintain()
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue;
    v_now timestamptz := pgq.now();
    v_row pgq.ready;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise warning 'eras do not turn under isolation level %',
            current_setting('transaction_isolation')
            using hint = 'Call pgq.maintain() under READ COMMITTED, or the log grows.';
    end if;
    perform pgq._mark_lanes();
    -- One at a time is enough, and the second need not wait.
    if not pgq._try_turn('maintain') then
        return;
    end if;
    for v_queue in select q.* from pgq.queue q order by q.queue_id loop
        perform pgq._upkeep(v_queue, 100000, v_now);
        for v_row in
            delete from pgq.ready d
            where d.ctid = any (array(
                select r.ctid from pgq.ready r
                where r.expires_at <= v_now and r.queue_id = v_queue.queue_id
                limit 1000 for update skip locked))
            returning d.*
        loop
            perform pgq._expire(
                v_queue, v_row.ids, v_row.attempt, v_row.failures, v_row.grouped, v_now);
        end loop;
        if v_queue.lane_keys is not null
           or exists (select from pgq.lane l where l.queue_id = v_queue.queue_id)
        then
            perform pgq._tidy_lanes(v_queue);
        end if;
    end loop;
    delete from pgq.waiter w where w.until < v_now - interval '1 min';
    delete from pgq.handled h
    where h.ctid = any (array(
        select i.ctid from pgq.handled i where i.handled_at < v_now - interval '7 days'
        limit 100000 for update skip locked));
    delete from pgq.staged s
    where s.ctid = any (array(
        select i.ctid from pgq.staged i where i.staged_at < v_now - interval '1 day'
        limit 100000 for update skip locked));
    perform pgq._tidy_bindings();
    perform pgq._tidy_outcomes();
    delete from pgq.dedup d
    where d.ctid = any (array(
        select e.ctid from pgq.dedup e where e.until <= v_now
        limit 100000 for update skip locked));
    -- Learnt routes are a cache: a stream of topics that never come back must not fill it.
    if (select count(*) > 20000 from pgq.route) then
        delete from pgq.route r
        where r.ctid = any (array(
            select s.ctid from pgq.route s limit 10000 for update skip locked));
    end if;
    perform pgq._tidy_filters(v_now);
    perform pgq._sweep_orphans();
    perform pgq._sweep_rights();
    perform pgq._turn_eras(v_now, true);
end
$$;
comment on procedure pgq.maintain() is
    'Optional upkeep: expired leases, due and expired messages, lanes, statistics, eras. Claims do '
    'what cannot wait by themselves; call it from a client, pg_cron or by hand, about every '
    'minute. '
    'Best as a transaction of its own.';
revoke all on procedure pgq.maintain() from public;

-- sql/70_maintain/mark_lanes.sql

-- Notes which transactions may still use what is to be tidied: lanes that a call before this has
-- hidden, and the rows without lanes of a queue that has got some.
--
-- Whoever does not know of that yet has an older transaction id than this one, because a publisher
-- gets its id before it looks for a lane. That is only so while this transaction has no id yet.
-- (The xmax of a snapshot would not do: it is behind the last that has ended, and younger ones may
-- run.)
create function pgq._mark_lanes() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        return;
    end if;
    -- Not if the queue is changing at this moment: the change would be younger than the id.
    update pgq.queue q set unlaned_xid = pg_current_xact_id()
    where q.ctid = any (array(
        select p.ctid from pgq.queue p
        where p.unlaned_rows and p.lane_keys is not null and p.unlaned_xid is null
        for update skip locked));
    update pgq.lane l set idle = pg_current_xact_id()
    where l.ctid = any (array(
        select k.ctid from pgq.lane k where k.idle = '0' for update skip locked));
end
$$;
comment on function pgq._mark_lanes() is
    'Notes which transactions may still use what is to be tidied.';
revoke all on function pgq._mark_lanes() from public;

-- sql/70_maintain/sweep_orphans.sql

-- Removes what transactions that did not know of a drop_queue yet have left behind.
create function pgq._sweep_orphans() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id int;
begin
    for v_queue_id in
        -- From one queue to the next by index, however many rows a queue has.
        with recursive present as (
            select min(r.queue_id) as queue_id from pgq.ready r
            union all
            select (select min(r.queue_id) from pgq.ready r where r.queue_id > p.queue_id)
            from present p where p.queue_id is not null
        ), planned as (
            select min(s.queue_id) as queue_id from pgq.scheduled s
            union all
            select (select min(s.queue_id) from pgq.scheduled s where s.queue_id > p.queue_id)
            from planned p where p.queue_id is not null
        ), dead as (
            select min(d.queue_id) as queue_id from pgq.dead_letter d
            union all
            select (select min(d.queue_id) from pgq.dead_letter d where d.queue_id > p.queue_id)
            from dead p where p.queue_id is not null
        ), headed as (
            select min(h.queue_id) as queue_id from pgq.group_head h
            union all
            select (select min(h.queue_id) from pgq.group_head h where h.queue_id > p.queue_id)
            from headed p where p.queue_id is not null
        )
        select i.queue_id
        from (
            select p.queue_id from present p
            union select p.queue_id from planned p
            union select p.queue_id from dead p
            union select p.queue_id from headed p
            union select distinct l.queue_id from pgq.lease l
            union select distinct l.queue_id from pgq.lane l
            union select distinct w.queue_id from pgq.waiter w
            union select s.queue_id from pgq.stream s
            union select r.queue_id from pgq.relay r
        ) i
        where i.queue_id is not null
          and not exists (select from pgq.queue q where q.queue_id = i.queue_id)
    loop
        perform pgq._sweep_queue(v_queue_id);
    end loop;
end
$$;
comment on function pgq._sweep_orphans() is 'Removes what belonged to queues that are gone.';
revoke all on function pgq._sweep_orphans() from public;

-- sql/70_maintain/tidy_bindings.sql

-- Adds up the statistics of subscriptions.
create function pgq._tidy_bindings() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    with gone as (
        delete from pgq.binding_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.binding_hit i limit 100000 for update skip locked))
        returning h.*
    )
    insert into pgq.binding_hit (binding_id, matches, last_at)
    select g.binding_id, sum(g.matches), max(g.last_at)
    from gone g join pgq.binding b on b.binding_id = g.binding_id
    group by 1;
end
$$;
comment on function pgq._tidy_bindings() is 'Adds up the statistics of subscriptions.';
revoke all on function pgq._tidy_bindings() from public;

-- sql/70_maintain/tidy_filters.sql

-- Adds up the statistics of filters, and forgets filters that nobody has used for a day.
create function pgq._tidy_filters(now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    with gone as (
        delete from pgq.filter_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.filter_hit i limit 100000 for update skip locked))
        returning h.*
    )
    insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
    select g.filter_id, g.queue_id, sum(g.claims), sum(g.tested), sum(g.matched), max(g.used_at),
           max(g.last_at)
    from gone g group by 1, 2;

    delete from pgq.filter f
    where f.created_at < _tidy_filters.now - interval '1 day'
      and not exists (
          select from pgq.filter_hit h
          where h.filter_id = f.filter_id and h.used_at > _tidy_filters.now - interval '1 day');
    -- What forgotten filters have done still counts for their queue: under number 0.
    with gone as (
        delete from pgq.filter_hit h
        where h.filter_id <> 0
          and not exists (select from pgq.filter f where f.filter_id = h.filter_id)
        returning h.*
    )
    insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
    select 0, g.queue_id, sum(g.claims), sum(g.tested), sum(g.matched), max(g.used_at),
           max(g.last_at)
    from gone g group by g.queue_id;
    delete from pgq.filter_hit h
    where not exists (select from pgq.queue q where q.queue_id = h.queue_id);
    delete from pgq.filter_scan s
    where not exists (select from pgq.filter f where f.filter_id = s.filter_id)
       or not exists (select from pgq.queue q where q.queue_id = s.queue_id);
end
$$;
comment on function pgq._tidy_filters(timestamptz) is
    'Adds up the statistics of filters and forgets unused ones.';
revoke all on function pgq._tidy_filters(timestamptz) from public;

-- sql/70_maintain/tidy_lanes.sql

-- Removes lanes that are no longer used, and gives lanes to rows from before a queue had them.
--
-- A lane must not go while a publisher that has looked it up is still to insert its row. So it is
-- first hidden from publishers; a later call notes its own transaction (_mark_lanes), and a call
-- after all older ones have ended removes the lane, unless one of them did use it.
create function pgq._tidy_lanes(queue pgq.queue) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row pgq.ready;
    v_done int := 0;
begin
    delete from pgq.lane l
    where l.queue_id = queue.queue_id and l.idle > '0'
      and l.idle <= pg_snapshot_xmin(pg_current_snapshot())
      and not exists (select from pgq.ready r where r.lane_id = l.lane_id);
    update pgq.lane l set idle = case when l.idle is null then xid8 '0' end
    where l.queue_id = queue.queue_id
      and (l.idle is null) <> exists (select from pgq.ready r where r.lane_id = l.lane_id);
    if queue.lanes_full
       and (select count(*) < 900 from pgq.lane l where l.queue_id = queue.queue_id)
    then
        update pgq.queue q set lanes_full = false
        where q.ctid = any (array(
            select p.ctid from pgq.queue p
            where p.queue_id = queue.queue_id for update skip locked));
    end if;

    if queue.unlaned_rows and queue.lane_keys is not null then
        for v_row in
            delete from pgq.ready d
            where d.ctid = any (array(
                select r.ctid from pgq.ready r
                where r.queue_id = queue.queue_id and r.lane_id is null
                order by r.rank limit 1000 for update skip locked))
            returning d.*
        loop
            perform pgq._enqueue(
                queue, v_row.ids, v_row.attempt, v_row.failures, v_row.grouped,
                back => (v_row.rank >> 49) & 1 = 0);
            v_done := v_done + 1;
        end loop;
        if v_done = 0 then
            -- Nobody is left who could add one, if the queue is as it was when that was noted.
            update pgq.queue q set unlaned_rows = false, unlaned_xid = null
            where q.ctid = any (array(
                select p.ctid from pgq.queue p
                where p.queue_id = queue.queue_id
                  and p.unlaned_xid <= pg_snapshot_xmin(pg_current_snapshot())
                  and not exists (select from pgq.ready r
                                  where r.queue_id = p.queue_id and r.lane_id is null)
                for update skip locked));
        end if;
    end if;
end
$$;
comment on function pgq._tidy_lanes(pgq.queue) is
    'Removes lanes that are no longer used, and gives lanes to rows that have none.';
revoke all on function pgq._tidy_lanes(pgq.queue) from public;

-- sql/70_maintain/tidy_outcomes.sql

-- Adds up what was counted, and forgets what belonged to queues that are gone.
create function pgq._tidy_outcomes() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    with gone as (
        delete from pgq.outcome o
        where o.ctid = any (array(
            select i.ctid from pgq.outcome i limit 100000 for update skip locked))
        returning o.*
    )
    insert into pgq.outcome (queue_id, event, reason, size)
    select g.queue_id, g.event, g.reason, sum(g.size)
    from gone g join pgq.queue q on q.queue_id = g.queue_id
    group by 1, 2, 3;
end
$$;
comment on function pgq._tidy_outcomes() is 'Adds up how messages fared.';
revoke all on function pgq._tidy_outcomes() from public;

-- sql/80_observe/00_metric.sql

-- What pgq can measure: the names, in the way of Prometheus, and what they mean. A counter only
-- grows, until its queue is dropped or the database is restored without it; what can shrink, such
-- as a count over the journal, is a gauge.
create view pgq._metric as
select m.name, m.kind, m.help
from (values
    ('pgq_info', 'gauge', 'Always 1; the label says the version of the installed code.'),
    ('pgq_in_recovery', 'gauge', '1 on a standby.'),
    -- queues
    ('pgq_ready_messages', 'gauge', 'Messages that can be claimed.'),
    ('pgq_scheduled_messages', 'gauge', 'Delayed messages and retries that are not due yet.'),
    ('pgq_leased_messages', 'gauge', 'Messages in flight: claimed and not ended.'),
    ('pgq_waiting_messages', 'gauge',
        'Messages behind others of their ordering group; 10001 means more.'),
    ('pgq_dead_messages', 'gauge', 'Dead letters.'),
    ('pgq_counts_exact', 'gauge',
        '0 if a queue has so many rows of state that its counts are estimates from a sample.'),
    ('pgq_oldest_ready_seconds', 'gauge',
        'Age of the oldest message that can be claimed; 0 if there is none.'),
    ('pgq_oldest_dead_seconds', 'gauge',
        'How long ago the oldest dead letter failed; 0 if there is none.'),
    ('pgq_paused', 'gauge', '1 while claims return nothing because the queue is paused.'),
    ('pgq_published_messages_per_second', 'gauge',
        'Messages of the topics that the queue receives, over the last minute or less.'),
    ('pgq_acked_messages_per_second', 'gauge',
        'Acknowledged messages over the last minute or less; 0 if the queue''s journal records '
        'failures only.'),
    ('pgq_failed_messages_per_second', 'gauge',
        'Messages refused, buried or timed out, over the last minute or less.'),
    ('pgq_leases', 'gauge', 'Leases: claims that are being worked on; of many an estimate.'),
    ('pgq_oldest_lease_seconds', 'gauge',
        'Age of the oldest lease; of many leases the oldest of a sample; 0 if there is none.'),
    ('pgq_expired_leases', 'gauge',
        'Leases past their end that no claim and no maintain() has taken back yet.'),
    ('pgq_unending_leases', 'gauge', 'Named leases without an end.'),
    ('pgq_unending_leased_messages', 'gauge', 'Messages that named leases without an end hold.'),
    ('pgq_oldest_unending_lease_seconds', 'gauge',
        'Age of the oldest named lease without an end; 0 if there is none.'),
    ('pgq_lanes', 'gauge', 'Lanes: combinations of values of the queue''s lane keys.'),
    ('pgq_lanes_full', 'gauge', '1 if new values share the mixed lane because there are too many.'),
    ('pgq_waiters', 'gauge', 'Consumers that sleep until a message comes.'),
    ('pgq_retries_total', 'counter', 'Messages given back for another attempt.'),
    ('pgq_lease_expiries_total', 'counter', 'Messages taken back from expired leases.'),
    ('pgq_dead_letters_total', 'counter', 'Messages that became dead letters, by reason.'),
    ('pgq_expired_messages_total', 'counter', 'Messages that expired before they were delivered.'),
    ('pgq_released_messages_total', 'counter', 'Messages given back by their consumers unharmed.'),
    ('pgq_replayed_messages_total', 'counter', 'Dead letters that were replayed.'),
    ('pgq_discarded_messages_total', 'counter', 'Dead letters that were discarded.'),
    ('pgq_filter_claims_total', 'counter',
        'Claims with a filter that looked at messages or found some.'),
    ('pgq_filter_tested_messages_total', 'counter', 'Messages that filters of claims tested.'),
    ('pgq_filter_matched_messages_total', 'counter', 'Messages that filters of claims took.'),
    ('pgq_subscription_matches_total', 'counter', 'Messages that a subscription received.'),
    -- the database
    ('pgq_published_messages_total', 'counter',
        'Message ids given, of all topics; those of rolled back transactions included.'),
    ('pgq_claims_total', 'counter',
        'Lease tokens given, of all queues; begins anew after 8388607.'),
    ('pgq_era', 'gauge', 'The number of the current era.'),
    ('pgq_era_bytes', 'gauge', 'Size of a slot of the log, or of its journal, with indexes.'),
    ('pgq_era_age_seconds', 'gauge', 'How long ago the era in a slot began; 0 if it is empty.'),
    ('pgq_era_overdue_seconds', 'gauge',
        'How long a slot should have been emptied already: somebody is in the way, an archive is '
        'late, or nobody claims or calls maintain().'),
    ('pgq_retention_seconds', 'gauge', 'The longest retention of any queue, which the log has.'),
    ('pgq_table_bytes', 'gauge', 'Size of a table of state, with indexes.'),
    ('pgq_table_dead_rows', 'gauge', 'Rows of a table that vacuum has still to remove.'),
    ('pgq_staged_messages', 'gauge',
        'Messages staged and neither published nor discarded; of many an estimate.'),
    ('pgq_oldest_staged_seconds', 'gauge',
        'Age of the oldest staged message, of many the oldest of a sample; its writer may never '
        'come back. 0 if there is none.'),
    ('pgq_oldest_snapshot_seconds', 'gauge',
        'Age of the transaction that holds back vacuum most, by the kind of its holder.'),
    ('pgq_oldest_snapshot_transactions', 'gauge',
        'How many transactions have begun since the oldest one that vacuum has to keep rows for, '
        'by the kind of its holder.'),
    ('pgq_snapshot_holder_seconds', 'gauge',
        'The oldest holders of snapshots: sessions and prepared transactions of a minute or more.'),
    ('pgq_hidden_snapshots', 'gauge',
        'Sessions with a snapshot whose age the caller may not see: grant it pg_read_all_stats.')
) m (name, kind, help);
comment on view pgq._metric is 'What pgq can measure.';
revoke all on table pgq._metric from public;

-- sql/80_observe/00_tail.sql

-- Where the last 32 pages of a table begin.
create function pgq._tail(relation regclass) returns tid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format('(%s,0)', greatest(
        pg_relation_size(relation) / current_setting('block_size')::bigint - 32, 0))::tid;
end
$$;
comment on function pgq._tail(regclass) is 'Where the last 32 pages of a table begin.';
revoke all on function pgq._tail(regclass) from public;

-- sql/80_observe/00_visible_queue.sql

-- The queues that whoever asks may consume. In a view current_user is who asks; the owner of the
-- tables, who may truncate them, sees everything.
create view pgq._visible_queue with (security_barrier) as
select q.queue_id, q.name
from pgq.queue q
where has_table_privilege('pgq.queue'::regclass, 'truncate')
   or exists (
       select from pgq.queue_right r
       where r.queue_id = q.queue_id and r.right in ('consume', 'admin')
         and pg_has_role(r.role, 'usage'));
comment on view pgq._visible_queue is 'The queues that whoever asks may consume.';
revoke all on table pgq._visible_queue from public;

-- Who may consume a queue may look at its dead letters. Functions of pgq run as the table's owner,
-- for whom there is no row security.
do $$
begin
    if not exists (select from pg_catalog.pg_policy
                   where polrelid = 'pgq.dead_letter'::regclass and polname = 'consumer')
    then
        create policy consumer on pgq.dead_letter for select
            using (queue_id in (select v.queue_id from pgq._visible_queue v));
    end if;
end
$$;
comment on policy consumer on pgq.dead_letter is 'Dead letters of queues that one may consume.';

-- sql/80_observe/check.sql

-- Verifies the laws of the stored state; every row returned is a defect.
create function pgq."check"() returns table (problem text, queue_id int, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        with held as (
            select 'ready' as place, r.queue_id, r.size, r.ids from pgq.ready r
            union all
            select 'scheduled', s.queue_id, s.size, s.ids from pgq.scheduled s
            union all
            select 'lease', l.queue_id, l.size, l.ids from pgq.lease l
            union all
            select 'dead_letter', d.queue_id, 1,
                   int8multirange(int8range(d.message_id, d.message_id + 1))
            from pgq.dead_letter d
            union all
            select 'group_line', g.queue_id, 1,
                   int8multirange(int8range(g.message_id, g.message_id + 1))
            from pgq.group_line g
        )
        select 'a set is empty', h.queue_id, h.place
        from held h where isempty(h.ids)
        union all
        select 'a set has another size than it says', h.queue_id,
               format('%s %s: %s', h.place, h.ids, h.size)
        from held h where h.size <> pgq._set_size(h.ids)
        union all
        select 'a message is in two places', t.queue_id,
               format('%s messages, once each: %s', t.total, t.once)
        from (
            select h.queue_id, sum(h.size) as total, pgq._set_size(range_agg(h.ids)) as once
            from held h group by h.queue_id
        ) t
        where t.total <> t.once
        union all
        select 'a set has ids of no message', t.queue_id,
               format('%s ids, %s messages', t.size, t.present)
        from (
            select h.queue_id, pgq._set_size(range_agg(h.ids)) as size,
                   (select count(*) from unnest(range_agg(h.ids)) r
                    join pgq.message m on m.id >= lower(r) and m.id < upper(r)) as present
            from held h where h.place <> 'dead_letter' group by h.queue_id
        ) t
        where t.size <> t.present
        union all
        select 'a message is in the log twice', null, format('message %s', m.id)
        from pgq.message m group by m.id having count(*) > 1
        union all
        select 'a set belongs to no queue', h.queue_id, h.place
        from held h
        where not exists (select from pgq.queue q where q.queue_id = h.queue_id)
        union all
        select 'a ready row does not stand where its lowest id belongs', r.queue_id,
               format('rank %s, ids %s', r.rank, r.ids)
        from pgq.ready r where r.rank - ((r.rank >> 49) << 49) <> lower(r.ids)
        union all
        select 'a ready row has another priority or expiry than its messages', r.queue_id,
               format('rank %s, message %s', r.rank, m.id)
        from pgq.ready r cross join unnest(r.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where r.rank >> 50 <> -m.priority
           or (r.expires_at is not null and r.expires_at is distinct from m.expires_at)
        union all
        select 'a ready row is in a lane that is not there', r.queue_id,
               format('lane %s', r.lane_id)
        from pgq.ready r
        where r.lane_id is not null
          and not exists (select from pgq.lane l
                          where l.lane_id = r.lane_id and l.queue_id = r.queue_id)
        union all
        select 'a ready row without a lane in a queue with lanes', r.queue_id, r.ids::text
        from pgq.ready r join pgq.queue q on q.queue_id = r.queue_id
        where r.lane_id is null and q.lane_keys is not null and not q.unlaned_rows
        union all
        select 'a message is in a lane with other headers', r.queue_id,
               format('message %s, lane %s', m.id, l.headers)
        from pgq.ready r join pgq.lane l on l.lane_id = r.lane_id
        cross join unnest(r.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.label is not null and l.label <> pgq._lane_label(m.headers, l.lane_keys)
        union all
        select 'a group has a line and no head', g.queue_id, format('group %s', g.group_key)
        from pgq.group_line g
        where not exists (select from pgq.group_head h
                          where h.queue_id = g.queue_id and h.group_key = g.group_key)
        union all
        select 'the head of a group is nowhere', t.queue_id, format('messages %s', t.missing)
        from (
            select g.queue_id,
                   range_agg(int8range(g.message_id, g.message_id + 1))
                   - coalesce((select range_agg(x.ids) from held x
                               where x.queue_id = g.queue_id and x.place <> 'group_line'), '{}')
                   - coalesce((select range_agg(int8range(s.message_id, s.message_id + 1))
                               from pgq.group_stall s where s.queue_id = g.queue_id), '{}')
                   as missing
            from pgq.group_head g group by g.queue_id
        ) t
        where t.missing <> '{}'
        union all
        select 'a message of a group is out of turn', x.queue_id, format('message %s', m.id)
        from (
            select h.queue_id, generate_series(lower(i), upper(i) - 1) as id
            from held h cross join unnest(h.ids) i
            where h.place in ('ready', 'scheduled', 'lease')
        ) x
        join pgq.message m on m.id = x.id
        where m.group_key is not null
          and not exists (select from pgq.group_head h
                          where h.queue_id = x.queue_id and h.group_key = m.group_key
                            and h.message_id = m.id)
        union all
        select 'two parts of a lease belong to different queues', min(l.queue_id),
               format('lease %s', l.lease_id)
        from pgq.lease l group by l.lease_id having count(distinct l.queue_id) > 1
        union all
        select distinct 'a lease does not know whether it holds groups', l.queue_id,
               format('lease %s', l.lease_id)
        from pgq.lease l cross join unnest(l.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.grouped <> (m.group_key is not null)
        union all
        select 'a name belongs to two claims', l.queue_id, format('key %s', l.key)
        from pgq.lease l where l.key is not null
        group by l.queue_id, l.key having count(distinct l.lease_id) > 1
        union all
        select distinct 'a stream holds a batch that it has finished', s.queue_id,
               format('lease %s, key %s', l.lease_id, l.key)
        from pgq.stream s
        join pgq.lease l on l.queue_id = s.queue_id
            and l.key ~ ('^stream ' || pgq._regex_quote(s.consumer) || ' [0-9]{1,18}$')
        where substring(l.key from '[0-9]+$')::bigint <= s.batch
        union all
        select 'a stream belongs to no queue', s.queue_id, s.consumer
        from pgq.stream s
        where not exists (select from pgq.queue q where q.queue_id = s.queue_id)
        union all
        select 'a relay belongs to no queue', r.queue_id, r.relay
        from pgq.relay r
        where not exists (select from pgq.queue q where q.queue_id = r.queue_id)
        union all
        select 'the current era is archived', null, format('era %s', e.number)
        from pgq.era e
        where e.archived_at is not null and e.number >= pg_sequence_last_value('pgq.era_number')
        union all
        select 'there is more than one archive', null, format('%s rows', count(*))
        from pgq.archive a having count(*) > 1
        union all
        select 'a right is void: its role is gone or may not use pgq', r.queue_id,
               format('%s to %s', r.right, r.role)
        from pgq.queue_right r
        where not exists (
            select from pg_namespace n cross join lateral aclexplode(n.nspacl) a
            where n.nspname = 'pgq' and a.grantee = r.role and a.privilege_type = 'USAGE');
end
$$;
comment on function pgq."check"() is
    'Verifies the laws of the stored state: every undelivered message is in exactly one '
    'place, sets '
    'and lanes are right, nothing dangles. Returns a row for each defect, so none is good. Reads '
    'everything: for tests, and for the doubtful.';
revoke all on function pgq."check"() from public;

-- sql/80_observe/explain_filter.sql

-- What a filter means for a queue, in rows for a person.
create function pgq.explain_filter(
    topic text, filter jsonb, caller pgq.caller default current_user
) returns table (item text, value text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', explain_filter.topic);
    v_filter pgq.filter := pgq._find_filter(
        coalesce(explain_filter.filter, '{}'), v_queue.lane_keys);
    v_kept record := pgq._keep_lanes(v_queue, v_filter);
    v_all int;
    v_fields text[];
    v_testing bigint;
    v_sure bigint;
    v_tested bigint;
    v_matched bigint;
    v_more boolean;
begin
    return query values
        ('filter', v_filter.document::text),
        ('compiled', v_filter.path::text),
        ('looks at', v_filter.scope);

    select count(*)::int into v_all from pgq.lane l where l.queue_id = v_queue.queue_id;
    if v_queue.lane_keys is null then
        return query values ('lanes', 'the queue has no lane keys');
    else
        return query values
            ('lane keys', array_to_string(v_queue.lane_keys, ', ')),
            ('lane test', v_filter.lane_path::text),
            ('lanes kept', format('%s of %s', cardinality(v_kept.lanes), v_all));
        return query
            select 'kept', coalesce(l.headers::text, 'mixed values')
            from pgq.lane l where l.lane_id = any (v_kept.lanes) order by l.lane_id limit 20;
        return query
            select 'pruned', l.headers::text
            from pgq.lane l
            where l.queue_id = v_queue.queue_id and l.lane_id <> all (v_kept.lanes)
            order by l.lane_id limit 20;
    end if;
    return query values ('final', case
        when v_filter.lane_final then 'yes: the lane keys decide, no message is tested'
        else 'no: messages of the kept lanes are tested one by one' end);

    -- A sample of what a claim would look at: as many as can be tested in some milliseconds.
    select coalesce(sum(p.size) filter (where p.lane_id = any (v_kept.sure)), 0),
           coalesce(sum(p.size), 0),
           count(*) >= 1000
    into v_sure, v_testing, v_more
    from pgq._peek_rows(v_queue.queue_id, v_kept.lanes, v_kept.by_lane, null,
                        -9223372036854775808, null, 10000) p;
    select count(*), count(*) filter (where pgq._test_filter(
               v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.attempt + 1,
               m.published_at, m.expires_at, m.id, pgq.now()))
    into v_tested, v_matched
    from (
        select e.*, p.attempt
        from pgq._peek_rows(v_queue.queue_id, v_kept.lanes, v_kept.by_lane, null,
                            -9223372036854775808, null, 10000) p
        cross join unnest(p.ids) r
        join pgq.message e on e.id >= lower(r) and e.id < upper(r)
        limit 10000
    ) m;
    v_more := v_more or v_tested < v_testing or v_testing >= 10000;
    return query values
        ('matches now', case when v_more then format('%s of the first %s', v_matched, v_tested)
                             else v_matched::text end),
        ('estimated cost', case
            when v_filter.lane_final and v_sure = v_testing then 'as a claim without a filter'
            when v_matched = 0 then format('tests %s messages to find nothing, once; then only '
                'what is new', case when v_more then 'all ' else v_tested::text end)
            else format('tests about %s messages for each match',
                        ceil(v_tested::numeric / v_matched)) end);

    select array_agg(distinct n.key) into v_fields
    from jsonb_path_query(pgq._filter_parse(v_filter.document),
                          '$.**.path[0]') f
    cross join lateral (select f #>> '{}' as key) n
    where n.key ~ '^[a-zA-Z][a-zA-Z0-9_-]{0,127}$'
      and (v_queue.lane_keys is null or n.key <> all (v_queue.lane_keys));
    return query values ('advice', case
        when v_filter.path::text in ('true', '(true)') or v_filter.document = '{}' then
            'none: the filter selects everything'
        when v_filter.lane_final and not v_queue.unlaned_rows then
            'none: the lanes answer this filter'
        when v_queue.unlaned_rows then
            'call pgq.maintain(): messages from before the queue had lane keys are still unsorted'
        when v_tested > 0 and v_matched * 2 > v_tested then
            'none: most messages match, testing them is cheap'
        when v_filter.scope = 'headers' and v_fields is not null then format(
            'if one of %s has few values, make it a lane key with pgq.alter_queue(%L, '
            'lane_keys => ...); or give the filter a queue of its own with pgq.subscribe',
            array_to_string(v_fields, ', '), v_queue.name)
        else 'give the filter a queue of its own with pgq.subscribe(name, pattern, filter): it is '
            'then evaluated once, when a message is published'
        end);
end
$$;
comment on function pgq.explain_filter(text, jsonb, pgq.caller) is
    'What a filter means for a queue: its compiled form, the lanes kept and pruned, whether '
    'messages '
    'are tested one by one, how many match now, what a claim costs, and what to do about it.';
revoke all on function pgq.explain_filter(text, jsonb, pgq.caller) from public;

-- sql/80_observe/filter_stats.sql

-- How filters fare.
create view pgq.filter_stats with (security_barrier) as
select q.name as queue, f.document as filter, sum(h.claims)::bigint as claims,
       sum(h.tested)::bigint as tested, sum(h.matched)::bigint as matched,
       max(h.last_at) as last_match_at
from pgq.filter_hit h
join pgq.filter f on f.filter_id = h.filter_id
join pgq._visible_queue q on q.queue_id = h.queue_id
group by q.name, f.document;
comment on view pgq.filter_stats is
    'Filters that claims have used: how often, how many messages they tested and took.';
comment on column pgq.filter_stats.claims is 'Claims that looked at messages or found some.';
revoke all on table pgq.filter_stats from public;

-- sql/80_observe/history.sql

-- What happened to a message, oldest first.
create function pgq.history(message_id bigint, caller pgq.caller default current_user)
returns table (at timestamptz, queue text, event text, attempt int, holder text, client inet,
               lease_id bigint, note text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues int[] := pgq._visible_queues(caller);
begin
    return query
        select h.at, q.name, h.event, h.attempt, h.holder, h.client, h.lease_id, h.note
        from (
            select u.*, bool_or(u.queue_id = any (v_queues)) over () as known
            from (
                select m.published_at as at, null::int as queue_id, 'publish' as event,
                       null::int as attempt, m.sender as holder, null::inet as client,
                       null::bigint as lease_id, m.topic as note, 1 as step
                from pgq.message m where m.id = history.message_id
                union all
                select distinct d.published_at, null::int, 'publish', null::int, d.sender,
                       null::inet, null::bigint, d.topic, 1
                from pgq.dead_letter d
                where d.message_id = history.message_id
                  and not exists (select from pgq.message m where m.id = history.message_id)
                union all
                select j.claimed_at, j.queue_id, 'claim', j.attempt, j.holder, j.client, j.lease_id,
                       null, 2
                from pgq.journal j
                where j.ids @> history.message_id and j.claimed_at is not null
                union all
                select j.at, j.queue_id, j.event, j.attempt, j.holder, j.client, j.lease_id,
                       j.error, 3
                from pgq.journal j where j.ids @> history.message_id
                union all
                select l.claimed_at, l.queue_id, 'claim', l.attempt, l.holder, l.client, l.lease_id,
                       case when l.until = 'infinity' then 'held without end'
                            else 'held until ' || l.until end, 2
                from pgq.lease l where l.ids @> history.message_id
                union all
                select null, r.queue_id, 'ready', r.attempt, null, null, null, null, 4
                from pgq.ready r where r.ids @> history.message_id
                union all
                select null, s.queue_id, 'scheduled', s.attempt, null, null, null,
                       'due ' || s.due_at, 4
                from pgq.scheduled s where s.ids @> history.message_id
                union all
                select null, g.queue_id, 'waiting', 0, null, null, null,
                       'for its turn in ' || g.group_key, 4
                from pgq.group_line g where g.message_id = history.message_id
                union all
                select d.failed_at, d.queue_id, 'dead', d.attempts, d.holder, d.client, null,
                       concat_ws(': ', d.reason, d.error), 4
                from pgq.dead_letter d where d.message_id = history.message_id
            ) u
        ) h
        left join pgq.queue q on q.queue_id = h.queue_id
        -- Its publication is known to those who may consume a queue that has or had it.
        where v_queues is null or h.queue_id = any (v_queues) or (h.queue_id is null and h.known)
        -- A claim takes back an expired lease and claims anew at one moment.
        order by h.at nulls last, h.attempt nulls first, h.step;
end
$$;
comment on function pgq.history(bigint, pgq.caller) is
    'What happened to a message, oldest first: publish, claim, ack, nack, release, bury, timeout, '
    'expire, replay, discard, and where it is now. Reads the journal, so it reaches back as far as '
    'the log. A role with rights sees what happened in the queues that it may consume.';
revoke all on function pgq.history(bigint, pgq.caller) from public;

-- sql/80_observe/journal_tail.sql

-- The newest journal rows: the last pages of each slot, whatever its size.
create function pgq._journal_tail() returns setof pgq.journal
language sql stable
begin atomic
    select j.* from pgq.journal_0 j where j.ctid >= pgq._tail('pgq.journal_0'::regclass)
    union all
    select j.* from pgq.journal_1 j where j.ctid >= pgq._tail('pgq.journal_1'::regclass)
    union all
    select j.* from pgq.journal_2 j where j.ctid >= pgq._tail('pgq.journal_2'::regclass);
end;
comment on function pgq._journal_tail() is 'The newest journal rows.';
revoke all on function pgq._journal_tail() from public;

-- sql/80_observe/leased_message.sql

-- The messages that are leased: what pgq.leased returns, for those who read a million. A function
-- would put all of them aside before it returns the first.
create view pgq.leased_message with (security_barrier) as
select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
       m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at, m.expires_at,
       nullif(l.until, 'infinity') as lease_until, lower(r) as range_low, upper(r) as range_high
from pgq.lease l
join pgq._visible_queue q on q.queue_id = l.queue_id
cross join lateral unnest(l.ids) r
join pgq.message m on m.id >= lower(r) and m.id < upper(r);
comment on view pgq.leased_message is
    'The messages of leases, to be read by lease_id and a range of ids; pgq.lease_parts tells the '
    'ranges. In no order.';
comment on column pgq.leased_message.range_low is
    'The message stands in the log among others of its lease: from this id';
comment on column pgq.leased_message.range_high is
    'to before this one. With conditions on both a reader passes over the other ranges.';
revoke all on table pgq.leased_message from public;

-- sql/80_observe/leases.sql

-- Who holds what: the list from which an operator breaks one.
create view pgq.leases as
select l.lease_id, q.name as queue, l.key, sum(l.size) as size, max(l.attempt) as attempt,
       min(l.claimed_at) as claimed_at, pgq.now() - min(l.claimed_at) as age,
       nullif(min(l.until), 'infinity') as until, l.holder, l.client
from pgq.lease l
join pgq.queue q on q.queue_id = l.queue_id
group by l.lease_id, q.name, l.key, l.holder, l.client;
comment on view pgq.leases is
    'Every lease: who holds how many messages of which queue, since when and until when. '
    'pgq.release(lease_id) breaks one, and its messages can be claimed by others.';
comment on column pgq.leases.key is 'The name of a named claim; null: none.';
comment on column pgq.leases.until is
    'Null: without end; watch the age of these, their consumer may never come back.';
comment on column pgq.leases.holder is 'application_name of the claiming session.';
revoke all on table pgq.leases from public;

-- sql/80_observe/log_tail.sql

-- The newest messages: the last pages of each slot, whatever its size.
create function pgq._log_tail() returns setof pgq.message
language sql stable
begin atomic
    select m.* from pgq.message_0 m where m.ctid >= pgq._tail('pgq.message_0'::regclass)
    union all
    select m.* from pgq.message_1 m where m.ctid >= pgq._tail('pgq.message_1'::regclass)
    union all
    select m.* from pgq.message_2 m where m.ctid >= pgq._tail('pgq.message_2'::regclass);
end;
comment on function pgq._log_tail() is 'The newest messages.';
revoke all on function pgq._log_tail() from public;

-- sql/80_observe/message_state.sql

-- Where every undelivered message is, in words; what is in none of these places is done.
create view pgq.message_state with (security_barrier) as
select s.id, q.name as queue, s.state, s.attempt, s.since, s.until, s.holder, s.lease_id
from (
    select generate_series(lower(r), upper(r) - 1) as id, d.queue_id, 'ready' as state, d.attempt,
           null::timestamptz as since, d.expires_at as until, null::text as holder,
           null::bigint as lease_id
    from pgq.ready d cross join unnest(d.ids) r
    union all
    select generate_series(lower(r), upper(r) - 1), c.queue_id,
           case when c.attempt = 0 then 'delayed' else 'retrying' end, c.attempt,
           null, c.due_at, null, null
    from pgq.scheduled c cross join unnest(c.ids) r
    union all
    select generate_series(lower(r), upper(r) - 1), l.queue_id, 'leased', l.attempt, l.claimed_at,
           nullif(l.until, 'infinity'), l.holder, l.lease_id
    from pgq.lease l cross join unnest(l.ids) r
    union all
    select g.message_id, g.queue_id, 'waiting', 0, null, null, null, null
    from pgq.group_line g
    union all
    select d.message_id, d.queue_id, 'dead', d.attempts, d.failed_at, null, d.holder, null
    from pgq.dead_letter d
) s
join pgq._visible_queue q on q.queue_id = s.queue_id;
comment on view pgq.message_state is
    'Every undelivered message and where it is: ready, delayed, retrying, leased, dead, or '
    'waiting for its turn in an ordering group. To ask '
    'for one message use pgq.history(id): this view is a list.';
comment on column pgq.message_state.attempt is 'Deliveries so far, this one included.';
comment on column pgq.message_state.since is 'Claimed or failed at.';
comment on column pgq.message_state.until is 'Expires, is due or is leased until.';
revoke all on table pgq.message_state from public;

-- sql/80_observe/metrics.sql

-- The numbers of pgq's own tables, read as their owner: those of the queues that the caller may
-- consume. Who may do everything, and members of pg_monitor, get all of them.
create function pgq._metrics(caller pgq.caller default current_user)
returns table (name text, labels jsonb, value float8)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues int[] := case when not pg_has_role(caller, 'pg_monitor', 'usage')
        then pgq._visible_queues(caller) end;
    v_now timestamptz := pgq.now();
    v_retention interval;
    v_pages float8 := current_setting('block_size')::float8;
    -- A table of few pages is sampled whole.
    v_lease real := (100 * least(1, 50 / greatest(
        pg_relation_size('pgq.lease') / v_pages, 1)))::real;
    v_staged real := (100 * least(1, 50 / greatest(
        pg_relation_size('pgq.staged') / v_pages, 1)))::real;
begin
    return query
        with visible as materialized (
            select q.* from pgq.queue q where v_queues is null or q.queue_id = any (v_queues)
        ), lease as materialized (
            select l.queue_id, count(distinct l.lease_id) * 100 / v_lease as size,
                   min(l.claimed_at) as oldest
            from pgq.lease l tablesample system (v_lease) group by 1
        ), expired as materialized (
            select l.queue_id, count(distinct l.lease_id) as size
            from pgq.lease l
            where l.lease_id < pgq._lease_second(v_now) and l.until <= v_now group by 1
        ), unending as materialized (
            select l.queue_id, count(distinct l.lease_id) as leases, sum(l.size) as size,
                   min(l.claimed_at) as oldest
            from pgq.lease l where l.key is not null and l.until = 'infinity' group by 1
        ), lane as materialized (
            select l.queue_id, count(*) as size from pgq.lane l group by 1
        ), waiter as materialized (
            select w.queue_id, count(*) as size from pgq.waiter w where w.until > v_now group by 1
        ), outcome as materialized (
            select o.queue_id,
                   sum(o.size) filter (where o.event in ('nack', 'timeout') and o.reason is null)
                       as retries,
                   sum(o.size) filter (where o.event = 'timeout') as timeouts,
                   sum(o.size) filter (where o.event = 'expire') as expired,
                   sum(o.size) filter (where o.event = 'release') as released,
                   sum(o.size) filter (where o.event = 'replay') as replayed,
                   sum(o.size) filter (where o.event = 'discard') as discarded
            from pgq.outcome o group by 1
        ), dead as materialized (
            select o.queue_id, o.reason, sum(o.size) as size
            from pgq.outcome o where o.reason is not null group by 1, 2
        ), filter as materialized (
            select h.queue_id, sum(h.claims) as claims, sum(h.tested) as tested,
                   sum(h.matched) as matched
            from pgq.filter_hit h group by 1
        ), hit as materialized (
            select h.binding_id, sum(h.matches) as matches from pgq.binding_hit h group by 1
        )
        select x.name, jsonb_build_object('queue', q.name), coalesce(x.value, 0)
        from visible q
        join pgq._queue_stats() s on s.queue = q.name
        left join lease l on l.queue_id = q.queue_id
        left join expired e on e.queue_id = q.queue_id
        left join unending u on u.queue_id = q.queue_id
        left join lane n on n.queue_id = q.queue_id
        left join waiter w on w.queue_id = q.queue_id
        left join outcome o on o.queue_id = q.queue_id
        left join filter f on f.queue_id = q.queue_id
        cross join lateral (values
            ('pgq_ready_messages', s.ready::float8),
            ('pgq_scheduled_messages', s.scheduled),
            ('pgq_leased_messages', s.leased),
            ('pgq_waiting_messages', s.waiting),
            ('pgq_dead_messages', s.dead),
            ('pgq_counts_exact', s.exact::int),
            ('pgq_oldest_ready_seconds', greatest(extract(epoch from s.oldest_age), 0)),
            ('pgq_oldest_dead_seconds', extract(epoch from v_now - (
                select min(d.failed_at) from pgq.dead_letter d where d.queue_id = q.queue_id))),
            ('pgq_paused', s.paused::int),
            ('pgq_published_messages_per_second', s.published_per_second),
            ('pgq_acked_messages_per_second', s.acked_per_second),
            ('pgq_failed_messages_per_second', s.failed_per_second),
            ('pgq_leases', round(l.size)),
            ('pgq_oldest_lease_seconds', extract(epoch from v_now - l.oldest)),
            ('pgq_expired_leases', e.size),
            ('pgq_unending_leases', u.leases),
            ('pgq_unending_leased_messages', u.size),
            ('pgq_oldest_unending_lease_seconds', extract(epoch from v_now - u.oldest)),
            ('pgq_lanes', n.size),
            ('pgq_lanes_full', q.lanes_full::int),
            ('pgq_waiters', w.size),
            ('pgq_retries_total', o.retries),
            ('pgq_lease_expiries_total', o.timeouts),
            ('pgq_expired_messages_total', o.expired),
            ('pgq_released_messages_total', o.released),
            ('pgq_replayed_messages_total', o.replayed),
            ('pgq_discarded_messages_total', o.discarded),
            ('pgq_filter_claims_total', f.claims),
            ('pgq_filter_tested_messages_total', f.tested),
            ('pgq_filter_matched_messages_total', f.matched)) x (name, value)
        union all
        select 'pgq_dead_letters_total', jsonb_build_object('queue', q.name, 'reason', r.reason),
               coalesce(d.size, 0)
        from visible q
        cross join unnest(array['processing_error', 'timeout', 'max_attempts', 'expired',
                                'rejected']) r (reason)
        left join dead d on d.queue_id = q.queue_id and d.reason = r.reason
        union all
        select 'pgq_subscription_matches_total',
               jsonb_build_object('queue', q.name, 'pattern', b.pattern), coalesce(h.matches, 0)
        from visible q
        join pgq.binding b on b.queue_id = q.queue_id and b.counted
        left join hit h on h.binding_id = b.binding_id;
    if v_queues is not null then
        return;
    end if;

    select coalesce(max(q.retention), interval '1 day') into v_retention from pgq.queue q;
    return query
        select x.name, x.labels, coalesce(x.value, 0)
        from (values
            ('pgq_info', jsonb_build_object('version', pgq.version()), 1::float8),
            ('pgq_in_recovery', '{}', pg_is_in_recovery()::int),
            ('pgq_published_messages_total', '{}', pg_sequence_last_value('pgq.message_id')),
            ('pgq_claims_total', '{}', pg_sequence_last_value('pgq.lease_id')),
            ('pgq_era', '{}', pg_sequence_last_value('pgq.era_number')),
            ('pgq_retention_seconds', '{}', extract(epoch from v_retention)))
            x (name, labels, value)
        union all
        select x.name, jsonb_build_object('slot', s.slot::text) || x.labels, coalesce(x.value, 0)
        from generate_series(0, 2) s (slot)
        left join pgq.era e on e.slot = s.slot and e.emptied_at is null
        left join pgq.era n on n.number = e.number + 1
        cross join lateral (values
            ('pgq_era_bytes', '{"part": "message"}'::jsonb,
                pg_total_relation_size(format('pgq.message_%s', s.slot)::regclass)::float8),
            ('pgq_era_bytes', '{"part": "journal"}',
                pg_total_relation_size(format('pgq.journal_%s', s.slot)::regclass)),
            ('pgq_era_age_seconds', '{}', extract(epoch from v_now - e.started_at)),
            ('pgq_era_overdue_seconds', '{}', greatest(0, extract(epoch from
                v_now - (n.started_at + v_retention + case when e.archived_at is null
                    then coalesce((select max(a.wait) from pgq.archive a), '0')
                    else '0' end))))) x (name, labels, value)
        union all
        select x.name, jsonb_build_object('table', c.relname), coalesce(x.value, 0)
        from pg_class c
        cross join lateral (values
            ('pgq_table_bytes', pg_total_relation_size(c.oid)::float8),
            ('pgq_table_dead_rows', pg_stat_get_dead_tuples(c.oid))) x (name, value)
        where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and not c.relispartition;
    -- A standby cannot look into an unlogged table.
    if not pg_is_in_recovery() then
        return query
            select x.name, '{}'::jsonb, coalesce(x.value, 0)
            from (select round(count(*) * 100 / v_staged) as size, min(t.staged_at) as oldest
                  from pgq.staged t tablesample system (v_staged)) t
            cross join lateral (values
                ('pgq_staged_messages', t.size),
                ('pgq_oldest_staged_seconds', extract(epoch from v_now - t.oldest)::float8))
                x (name, value);
    end if;
end
$$;
comment on function pgq._metrics(pgq.caller) is 'The numbers of pgq''s own tables.';
revoke all on function pgq._metrics(pgq.caller) from public;

-- Sessions are looked at with the rights of the caller, who may see more of them than the owner.
create function pgq.metrics()
returns table (name text, kind text, labels jsonb, value float8, help text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_now timestamptz := pgq.now();
begin
    return query
        with holder as materialized (
            -- What holds back the vacuum of this database. A transaction that has an id holds the
            -- horizon as a snapshot does; a standby may, through its sender or its slot.
            select 'session' as kind, a.pid::text as name, a.usename::text as role,
                   a.application_name as application,
                   greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions,
                   extract(epoch from v_now - a.xact_start)::float8 as seconds
            from pg_stat_activity a
            where (a.datname = current_database() or a.datid is null)
              and a.pid <> pg_backend_pid()
              and (a.backend_xmin is not null or a.backend_xid is not null)
              and a.backend_type is distinct from 'autovacuum worker'
            union all
            select 'prepared', p.gid, p.owner, null, age(p.transaction),
                   extract(epoch from v_now - p.prepared)
            from pg_prepared_xacts p where p.database = current_database()
            union all
            select 'slot', s.slot_name, null, null, age(s.xmin), null
            from pg_replication_slots s where s.xmin is not null
        ), value (name, labels, value) as (
            select m.name, m.labels, m.value from pgq._metrics() m
            union all
            select 'pgq_oldest_snapshot_transactions', jsonb_build_object('kind', k.kind),
                   coalesce(max(h.transactions), 0)
            from unnest(array['session', 'prepared', 'slot']) k (kind)
            left join holder h on h.kind = k.kind group by k.kind
            union all
            select 'pgq_oldest_snapshot_seconds', jsonb_build_object('kind', k.kind),
                   greatest(max(h.seconds), 0)
            from unnest(array['session', 'prepared']) k (kind)
            left join holder h on h.kind = k.kind group by k.kind
            union all
            (select 'pgq_snapshot_holder_seconds', jsonb_build_object(
                        'kind', h.kind, 'name', h.name, 'role', coalesce(h.role, ''),
                        'application', coalesce(h.application, '')), h.seconds
             from holder h where h.seconds >= 60 order by h.seconds desc limit 5)
            union all
            select 'pgq_hidden_snapshots', '{}', count(*)
            from holder h where h.kind = 'session' and h.seconds is null
        )
        select m.name, m.kind, v.labels, v.value, m.help
        from value v left join pgq._metric m on m.name = v.name
        order by m.name, v.labels::text;
end
$$;
comment on function pgq.metrics() is
    'What there is to watch, for Prometheus and its like: a row for each number, with its name, '
    'gauge or counter, labels and meaning. Milliseconds whatever the backlog, also on a standby. '
    'Queues that one may consume; the owner and members of pg_monitor see all queues and '
    'the database.';
revoke all on function pgq.metrics() from public;

-- As PostgreSQL's own statistics are: for whoever watches servers.
grant usage on schema pgq to pg_monitor;
grant select on pgq._metric to pg_monitor;
grant execute on function pgq.metrics, pgq._metrics, pgq.now to pg_monitor;

-- sql/80_observe/oldest_ready.sql

-- The lowest id that a queue has ready: the first of each stretch of ranks, found by index.
create function pgq._oldest_ready(queue_id int) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_after bigint := -9223372036854775808;
    v_rank bigint;
    v_oldest bigint;
begin
    loop
        select r.rank into v_rank from pgq.ready r
        where r.queue_id = _oldest_ready.queue_id and r.rank >= v_after order by r.rank limit 1;
        exit when not found;
        v_after := (v_rank >> 49) << 49;
        v_oldest := least(v_oldest, v_rank - v_after);
        v_after := v_after + 562949953421312;
    end loop;
    return v_oldest;
end
$$;
comment on function pgq._oldest_ready(int) is 'The lowest id that a queue has ready.';
revoke all on function pgq._oldest_ready(int) from public;

-- sql/80_observe/queue_stats.sql

-- How the queues are doing. Counts are exact while a queue has few rows; of a large backlog some
-- pages are sampled, so that looking costs milliseconds whatever there is to count.
create function pgq._queue_stats(caller pgq.caller default current_user)
returns table (queue text, mode text, paused boolean, ready bigint, scheduled bigint,
               leased bigint, waiting bigint, dead bigint, exact boolean, oldest_age interval,
               next_due_at timestamptz, published_per_second float8, acked_per_second float8,
               failed_per_second float8, relay text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- Of a queue with few rows, the first 501 are found by index and not behind those of the others.
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queues int[] := pgq._visible_queues(caller);
    v_now timestamptz := pgq.now();
    -- A table of few pages is sampled whole.
    v_ready real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.ready') / current_setting('block_size')::float8, 1)))::real;
    v_lease real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.lease') / current_setting('block_size')::float8, 1)))::real;
    v_scheduled real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.scheduled') / current_setting('block_size')::float8, 1)))::real;
    v_dead real := (100.0 * least(1, 50 / greatest(
        pg_relation_size('pgq.dead_letter') / current_setting('block_size')::float8, 1)))::real;
begin
    return query
        with ready_sample as materialized (
            select r.queue_id, sum(r.size) * 100 / v_ready as size
            from pgq.ready r tablesample system (v_ready) group by 1
        ), lease_sample as materialized (
            select l.queue_id, sum(l.size) * 100 / v_lease as size
            from pgq.lease l tablesample system (v_lease) group by 1
        ), scheduled_sample as materialized (
            select s.queue_id, sum(s.size) * 100 / v_scheduled as size
            from pgq.scheduled s tablesample system (v_scheduled) group by 1
        ), dead_sample as materialized (
            select d.queue_id, count(*) * 100 / v_dead as size
            from pgq.dead_letter d tablesample system (v_dead) group by 1
        ), ended as materialized (
            select t.queue_id,
                   sum(t.size) filter (where t.event = 'ack') as acked,
                   sum(t.size) filter (where t.event in ('nack', 'bury', 'timeout')) as failed,
                   extract(epoch from v_now - min(t.since))::float8 as seconds
            from (
                select j.queue_id, j.event, j.size, min(j.at) over () as since
                from pgq._journal_tail() j
                where j.at > v_now - interval '1 min'
            ) t
            group by 1
        ), published as materialized (
            select u.queue_id, sum(t.size) as size, min(t.seconds) as seconds
            from (
                select m.topic, count(*) as size,
                       extract(epoch from v_now - min(min(m.published_at)) over ())::float8
                           as seconds
                from pgq._log_tail() m
                where m.published_at > v_now - interval '1 min'
                group by 1
            ) t
            cross join lateral (
                select r.queue_ids, r.binding_ids from pgq.route r
                where r.topic = t.topic and r.version = (select s.version from pgq.routing s)
                limit 1
            ) r
            cross join lateral (
                select unnest(r.queue_ids) as queue_id
                union
                select b.queue_id from pgq.binding b where b.binding_id = any (r.binding_ids)
            ) u
            group by 1
        )
        select q.name, q.mode, q.paused,
               case when r.many then coalesce(
                   (select s.size from ready_sample s where s.queue_id = q.queue_id), r.size)
                   else r.size end::bigint,
               case when c.many then coalesce(
                   (select s.size from scheduled_sample s where s.queue_id = q.queue_id), c.size)
                   else c.size end::bigint,
               case when l.many then coalesce(
                   (select s.size from lease_sample s where s.queue_id = q.queue_id), l.size)
                   else l.size end::bigint,
               g.size,
               case when d.many then coalesce(
                   (select s.size from dead_sample s where s.queue_id = q.queue_id), d.size)
                   else d.size end::bigint,
               not (r.many or c.many or l.many or d.many or g.size > 10000),
               v_now - (select m.published_at from pgq.message m
                        where m.id = pgq._oldest_ready(q.queue_id)),
               (select min(s.due_at) from pgq.scheduled s where s.queue_id = q.queue_id),
               coalesce((select p.size / greatest(p.seconds, 1) from published p
                         where p.queue_id = q.queue_id), 0)::float8,
               coalesce((select e.acked / greatest(e.seconds, 1) from ended e
                         where e.queue_id = q.queue_id), 0)::float8,
               coalesce((select e.failed / greatest(e.seconds, 1) from ended e
                         where e.queue_id = q.queue_id), 0)::float8,
               (select case when not bool_and(coalesce(s.owner is not null and s.until > v_now,
                                                       false)) then 'silent'
                            when bool_or(x.circuit = 'open') then 'open'
                            when bool_or(x.circuit = 'half-open') then 'half-open'
                            when count(*) > 0 then 'closed' end
                from pgq.relay x
                left join pgq.stream s on s.queue_id = x.queue_id and s.consumer = x.relay
                where x.queue_id = q.queue_id)
        from pgq.queue q
        cross join lateral (
            select coalesce(sum(x.size), 0) as size, count(*) > 500 as many
            from (select y.size from pgq.ready y where y.queue_id = q.queue_id limit 501) x
        ) r
        cross join lateral (
            select coalesce(sum(x.size), 0) as size, count(*) > 500 as many
            from (select y.size from pgq.scheduled y where y.queue_id = q.queue_id limit 501) x
        ) c
        cross join lateral (
            select coalesce(sum(x.size), 0) as size, count(*) > 500 as many
            from (select y.size from pgq.lease y where y.queue_id = q.queue_id limit 501) x
        ) l
        cross join lateral (
            select count(*) as size, count(*) > 500 as many
            from (select from pgq.dead_letter y where y.queue_id = q.queue_id limit 501) x
        ) d
        cross join lateral (
            -- A lower bound, if there are more.
            select count(*) as size
            from (select from pgq.group_line y where y.queue_id = q.queue_id limit 10001) x
        ) g
        where v_queues is null or q.queue_id = any (v_queues)
        order by q.name;
end
$$;
comment on function pgq._queue_stats(pgq.caller) is 'How the queues are doing.';
revoke all on function pgq._queue_stats(pgq.caller) from public;

create view pgq.queue_stats as select * from pgq._queue_stats();
comment on view pgq.queue_stats is
    'How the queues are doing: how much is ready, scheduled, leased and dead, the age of the '
    'oldest '
    'ready message, rates over the last minute. Cheap whatever the backlog: above 500 rows '
    'a count is an estimate from a sample (exact is false then).';
comment on column pgq.queue_stats.waiting is 'Waiting for their turn in an ordering group.';
comment on column pgq.queue_stats.published_per_second is 'Messages of the topics it receives.';
comment on column pgq.queue_stats.relay is
    'How its relays are doing, the worst of them: silent (not heard of), or their circuit breaker '
    'is open, half-open or closed. Null: there are none. See pgq.relays.';
revoke all on table pgq.queue_stats from public;

-- sql/80_observe/relays.sql

-- The relays of the queues that one may consume.
create view pgq.relays with (security_barrier) as
select q.name as queue, r.relay, r.destination,
       s.owner is not null and s.until > pgq.now() as alive,
       r.circuit, r.changed_at, r.error, s.owner, s.batch
from pgq.relay r
join pgq._visible_queue q on q.queue_id = r.queue_id
left join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay;
comment on view pgq.relays is
    'The relays: where each forwards its queue to, whether it lives, and how its circuit breaker '
    'is. pgq.relay_report(queue, relay) has one forgotten that is not to come back.';
comment on column pgq.relays.alive is
    'False: not heard of for a while, and it has not said that it ends.';
comment on column pgq.relays.changed_at is 'Since when the circuit is what it is.';
comment on column pgq.relays.owner is 'The process that runs it.';
comment on column pgq.relays.batch is 'The last batch that it has finished.';
revoke all on table pgq.relays from public;

-- sql/80_observe/replies.sql

-- The messages that belong together by their correlation id, oldest first.
create function pgq.replies(
    correlation_id text, caller pgq.caller default current_user
) returns setof pgq.message
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queues int[] := pgq._visible_queues(caller);
begin
    return query
        select m.* from pgq.message m
        where m.correlation_id = replies.correlation_id
          and (v_queues is null or pgq._is_received(v_queues, m))
        order by m.id;
end
$$;
comment on function pgq.replies(text, pgq.caller) is
    'The messages of the log with this correlation_id, oldest first; found by an index.';
revoke all on function pgq.replies(text, pgq.caller) from public;

-- sql/80_observe/rights.sql

-- Who may do what. The owner sees everything, others what they have themselves.
create view pgq.rights with (security_barrier) as
select q.name as queue, a.rolname as role, r.right
from pgq.queue_right r
join pgq.queue q on q.queue_id = r.queue_id
join pg_roles a on a.oid = r.role
where has_table_privilege('pgq.queue'::regclass, 'truncate') or pg_has_role(r.role, 'usage');
comment on view pgq.rights is
    'Who has which right to which queue: all of them for the owner, their own for others.';
comment on column pgq.rights.role is 'The role; its members have the right too.';
comment on column pgq.rights."right" is 'publish, consume or admin.';
revoke all on table pgq.rights from public;

-- sql/80_observe/subscription.sql

-- Who is subscribed to what, and how often that matched.
create view pgq.subscription with (security_barrier) as
select q.name as subscriber, b.pattern, b.filter, b.created_at,
       coalesce(h.matches, 0)::bigint as match_count, h.last_at as last_matched_at
from pgq.binding b
join pgq._visible_queue q on q.queue_id = b.queue_id
left join (
    select x.binding_id, sum(x.matches) as matches, max(x.last_at) as last_at
    from pgq.binding_hit x group by x.binding_id
) h on h.binding_id = b.binding_id
where b.counted;
comment on view pgq.subscription is
    'Who is subscribed to what, since when, and how often that matched. A queue''s own topic '
    'is not '
    'a subscription.';
revoke all on table pgq.subscription from public;

-- sql/80_observe/version.sql

-- The version of the installed code.
create function pgq.version() returns text
language sql immutable parallel safe
return '0.1.0';
comment on function pgq.version() is 'The version of the installed code.';
revoke all on function pgq.version() from public;
