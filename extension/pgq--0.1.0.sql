-- pgq 0.1.0: built from sql/ by sql/build.py; edit the sources.
--
-- CREATE EXTENSION pgq runs this. On a server where no extension files can be installed, run it
-- with any client: psql -f, or as one statement from a program; run it again to upgrade. It is a
-- single statement, so that it either succeeds or changes nothing.
--
-- How it works. A message is one immutable row of pgq.message, the log. The state of messages is
-- stored beside the log as sets of message ids: pgq.ready has the sets that can be claimed,
-- pgq.scheduled those that are due later, pgq.lease those that consumers hold.
--
-- publish (or any INSERT into pgq.message) writes the message and adds its id to a ready row of
-- every queue that receives its topic. claim deletes ready rows and inserts a lease; lease_id is
-- the token for ack, nack, bury, release and extend. ack deletes the lease. nack, or an expired
-- lease, moves the ids back to ready or scheduled; after max_attempts the message becomes a row of
-- pgq.dead_letter, and replay puts it back.
--
-- maintain() rotates the log: it copies unfinished messages forward and truncates the oldest of
-- three partitions. Nothing is deleted from the log row by row. Claims do the urgent maintenance,
-- so that no daemon is needed.
--
-- Functions whose names begin with _ are private. Each file of sql/ begins with its name.
do $pgq_install$
declare
    v_search_path text := pg_catalog.current_setting('search_path');
    v_check_bodies text := pg_catalog.current_setting('check_function_bodies');
    v_extension boolean;  -- this is run by CREATE EXTENSION, or there is such an extension
    v_version text;       -- installed by this script before; null: not at all
begin
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform pg_catalog.set_config('check_function_bodies', 'on', true);
    v_extension := exists (select from pg_extension where extname = 'pgq');
    if to_regnamespace('pgq') is not null then
        if exists (
            select from pg_depend d join pg_extension e on e.oid = d.refobjid
            where d.classid = 'pg_namespace'::regclass and d.objid = 'pgq'::regnamespace
              and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e')
        then
            raise exception 'pgq is installed as an extension'
                using errcode = 'object_not_in_prerequisite_state',
                      hint = 'Use ALTER EXTENSION pgq UPDATE.';
        elsif v_extension or to_regprocedure('pgq.version()') is null then
            raise exception 'schema "pgq" already exists'
                using errcode = 'duplicate_schema',
                      hint = 'Something else is there, or pgq without being an extension.';
        end if;
        v_version := pgq.version();
        if v_version <> all (array['0.1.0']) then
            raise exception 'pgq % cannot be upgraded to 0.1.0 by this script', v_version
                using errcode = 'feature_not_supported';
        end if;
        execute $pgq_script$
-- sql/01_lock.sql

-- Start of every upgrade: takes all exclusive locks at once, or none. If an upgrade held one lock
-- and waited for another, it could deadlock with a session that takes them in another order. This
-- statement gives up after a tenth of a second and releases its locks, so that other sessions do
-- not wait longer.
do $$
declare
    v_timeout text := pg_catalog.current_setting('lock_timeout');
    v_deadline timestamptz := pg_catalog.clock_timestamp() + interval '1 min';
    v_view regclass;
begin
    loop
        begin
            perform pg_catalog.set_config('lock_timeout', '100ms', true);
            -- For the trigger, and for the views: to reset an option that is not set only locks.
            lock table pgq.message in share row exclusive mode;
            for v_view in
                select c.oid from pg_catalog.pg_class c
                where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'v' order by c.oid
            loop
                execute pg_catalog.format('alter view %s reset (check_option)', v_view);
            end loop;
            exit;
        exception
            when lock_not_available or deadlock_detected then
                if pg_catalog.clock_timestamp() > v_deadline then
                    raise exception 'pgq is in use by a long transaction'
                        using errcode = 'lock_not_available',
                              hint = 'Nothing has changed. End the transaction (pg_locks shows it) '
                                     'and upgrade again.';
                end if;
                perform pg_catalog.pg_sleep(0.1 + pg_catalog.random() / 10);
        end;
    end loop;
    perform pg_catalog.set_config('lock_timeout', v_timeout, true);
end
$$;
$pgq_script$;
    end if;
    if v_version is null then
        execute $pgq_script$
-- sql/10_schema/10_schema.sql

-- One page for a newcomer.
--
-- A message is an immutable row of pgq.message. A queue receives every message that one of its
-- bindings (topic pattern, filter) accepts. The state of messages is not a status column on a
-- million rows: a queue has a handful of rows that each hold a SET OF MESSAGE IDS.
-- Publishing adds a set to pgq.ready, claiming moves ids from ready to pgq.lease, acknowledging
-- subtracts them from the lease, failing moves them to pgq.scheduled or to pgq.letter.
--
-- Where to read on:
--   * publishing: pgq.publish and pgq.publish_batch; pgq._route, the trigger of INSERT and COPY
--   * claiming: pgq.claim, with the fast paths _take_row, _take_singles and _take_part; pgq._claim
--   * ending a lease: pgq.ack, pgq.nack, pgq.bury, pgq.release; pgq._retry and pgq._bury_set
--   * upkeep by claims: pgq._upkeep takes back expired leases and makes due messages ready
--   * maintenance: pgq.maintain; pgq._rotate for the eras of the log
--   * filters: pgq._filter_parse and pgq._filter_path compile a document to a jsonpath
-- extension/design.md explains the ideas and what they cost.
--
-- Invariants that the code relies on:
--   * An id of a queue is in at most one of ready, scheduled, lease, letter.
--   * Every id inside a set is a message that exists in the log.
--   * A ready row is never updated: it is deleted, and the rest of it becomes a new row. After
--     FOR UPDATE SKIP LOCKED an updated row could be newer than the statement's snapshot, and a
--     DELETE by ctid would silently miss it; a deleted row simply vanishes.
--   * Lock order: ready or scheduled rows, then lease rows, then everything else; rows of another
--     transaction are skipped, never waited for, except by ack, nack, bury and extend, which name
--     the one lease they want.
create schema pgq;
comment on schema pgq is 'pgq: a message queue made of id sets';
revoke all on schema pgq from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/11_queue.sql

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
$pgq_script$;
        execute $pgq_script$
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
    pending    boolean not null default false,
    since      timestamptz,
    since_id   bigint,
    anchors    int not null default 0,
    created_at timestamptz not null default now(),
    constraint binding_pkey primary key (binding_id),
    constraint binding_queue_pattern_unique unique (queue_id, pattern),
    constraint binding_queue_exists foreign key (queue_id) references pgq.queue on delete cascade
);
create index binding_pattern_idx on pgq.binding (pattern) where regex is null;
comment on table pgq.binding is
    'The topics that a queue receives, and the filters that select their messages.';
comment on column pgq.binding.pattern is 'A topic, or AMQP words: * is one word, # is any number.';
comment on column pgq.binding.regex is
    'The pattern as a regular expression; null for a plain topic.';
comment on column pgq.binding.filter is 'The filter document; null receives everything.';
comment on column pgq.binding.scope is
    'The part of a message that the compiled filter reads: see pgq._filter_reads.';
comment on column pgq.binding.path is 'The compiled filter.';
comment on column pgq.binding.counted is
    'Whether matches are counted. False for the topic of the queue''s own name, to save time.';
comment on column pgq.binding.pending is
    'The subscription is not active yet. maintain() adds messages of the log since a time or an '
    'id, and activates it.';
comment on column pgq.binding.anchors is
    'How many rows of pgq.anchor the filter needs; 0: it is tested on every message.';
revoke all on table pgq.binding from public;

-- Finds filters by the values of a message. A message that has none of a filter's anchors cannot
-- match the filter. Derived from the filters: not in dumps, maintain() rebuilds them.
create table pgq.anchor (
    binding_id int not null,
    number     int not null,
    field      bigint not null,
    scope      text not null,
    path       text[] not null,
    kind       text not null,
    size       int,
    place      bigint,
    area       box,
    constraint anchor_pkey primary key (binding_id, number),
    constraint anchor_binding_exists foreign key (binding_id) references pgq.binding
        on delete cascade
);
create index anchor_field_idx on pgq.anchor (field);
create index anchor_place_idx on pgq.anchor (place) where place is not null;
create index anchor_area_idx on pgq.anchor using gist (area) where area is not null;
comment on table pgq.anchor is
    'Indexed conditions of subscription filters. A message that matches a filter satisfies at '
    'least one of them.';
comment on column pgq.anchor.field is 'Hash of the topic pattern, the scope and the path.';
comment on column pgq.anchor.kind is
    'equal, prefix (of size characters), range, text range, there (the field exists), missing, '
    'several (the field has more than one value).';
comment on column pgq.anchor.place is 'Hash of the field and the value; null for a range.';
comment on column pgq.anchor.area is 'A box: the range on the x axis, the field on the y axis.';
revoke all on table pgq.anchor from public;

-- How publishing looks up one field of the filters of a topic.
create type pgq._field as (
    field   bigint,          -- as in pgq.anchor
    scope   text,            -- headers, payload, msg
    path    text[],
    paths   jsonpath[],      -- of the payload: where the values of the field are
    equal   boolean,         -- kinds of anchors that this field has
    sizes   int[],
    ranged  boolean,
    texts   boolean,
    there   boolean,
    missing boolean,
    several boolean
);
comment on type pgq._field is 'A field by which publishing finds the filters of a topic.';
revoke all on type pgq._field from public;

-- Messages and bindings that they match; both arrays run in parallel.
create type pgq._hits as (
    binding_ids int[],
    message_ids bigint[]
);
comment on type pgq._hits is 'Messages and bindings that they match.';
revoke all on type pgq._hits from public;

-- Publishing looks up its topic here with one index probe, whatever the number of patterns. Rows of
-- an older version are ignored, and are deleted without waiting for locks, so that a change of
-- bindings blocks no publisher. Two publishers may store the same topic at once; both rows are
-- correct.
create table pgq.route (
    topic        text not null,
    version      bigint not null,
    queue_ids    int[] not null,
    binding_ids  int[] not null,
    receivers    int[] not null,
    windows      interval[] not null,
    fields       pgq._field[],
    patterns     text[],
    laned        boolean not null default false,
    replacing    boolean not null default false
);
create index route_topic_idx on pgq.route (topic, version);
comment on table pgq.route is 'The routing cache: the queues that receive a topic.';
comment on column pgq.route.version is 'The routing version that the row belongs to.';
comment on column pgq.route.queue_ids is
    'Queues that receive every message of the topic, uncounted. All of them have lanes, or none.';
comment on column pgq.route.binding_ids is
    'The bindings of the other queues that receive it, except those that are found by anchors.';
comment on column pgq.route.receivers is
    'All queues with dedup = keep that receive messages of the topic, also archives. Empty if the '
    'route uses anchors.';
comment on column pgq.route.laned is 'The queues of queue_ids have lanes.';
comment on column pgq.route.replacing is
    'A queue replaces or postpones by dedup key. Messages are stored even if other queues have '
    'had the key.';
comment on column pgq.route.windows is 'The dedup window of each of the receivers.';
comment on column pgq.route.fields is
    'Fields whose values are looked up in pgq.anchor; null: the route uses no anchors.';
comment on column pgq.route.patterns is
    'Patterns with filters on other headers, which are looked up by the name of the header.';
revoke all on table pgq.route from public;

-- Several rows, so that changes of bindings in open transactions do not wait for each other. Every
-- change adds 1 to one row. The sum of the rows identifies the changes that a snapshot sees.
create table pgq.routing (
    stripe  int not null,
    version int not null,
    constraint routing_pkey primary key (stripe)
);
insert into pgq.routing select i, 0 from pg_catalog.generate_series(1, 8) i;
comment on table pgq.routing is
    'The routing version: the sum over the rows. A change of the bindings updates one row.';
revoke all on table pgq.routing from public;
$pgq_script$;
        execute $pgq_script$
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
    first_id    bigint,
    closed_xid  xid8,
    copied_xid  xid8,
    emptied_at  timestamptz,
    messages    bigint,
    checksum    bigint,
    archived_at timestamptz,
    constraint era_pkey primary key (slot)
);
comment on table pgq.era is
    'The era in each slot of the ring. A slot that was never used has no row.';
comment on column pgq.era.first_id is
    'Messages with this id or a larger one are in this era or a later one; null: not known.';
comment on column pgq.era.emptied_at is
    'When the slot was truncated; null while it holds messages.';
comment on column pgq.era.closed_xid is
    'Transactions before this one may still publish into the era; null: it is the current one.';
comment on column pgq.era.copied_xid is
    'The transaction after which the era had no unfinished message. The era can be truncated when '
    'no snapshot is older than that.';
comment on column pgq.era.messages is
    'How many messages pgq.archive_next has counted.';
comment on column pgq.era.checksum is
    'The checksum of these messages, for the comparison with a copy.';
comment on column pgq.era.archived_at is
    'When pgq.archived confirmed a copy.';
revoke all on table pgq.era from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/14_message.sql

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
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/15_lane.sql

-- Lanes are labels. Two rows with the same label (made by two publishers at once) are harmless.
-- There is no unique constraint, so no publisher waits for another.
create table pgq.lane (
    lane_id   int generated always as identity,
    queue_id  int not null,
    lane_keys text[] not null,
    label     jsonb,
    document  jsonb,
    idle      xid8,
    constraint lane_pkey primary key (lane_id)
);
create index lane_label_idx on pgq.lane (queue_id, label);
create index lane_queue_idx on pgq.lane (queue_id, lane_id);
comment on table pgq.lane is
    'The lane dictionary: the values that the messages of a lane share.';
comment on column pgq.lane.lane_keys is
    'The keys of the label. If the queue has other keys now, the lane can contain any message.';
comment on column pgq.lane.label is
    'The values in order, [] for a missing or hashed value; null: the overflow lane.';
comment on column pgq.lane.document is
    'The label in the form of a message, to test filters on it.';
comment on column pgq.lane.idle is
    'Null: in use. 0: it was empty, and publishers no longer use it. Otherwise: it can be removed '
    'when all transactions before this one have ended.';
revoke all on table pgq.lane from public;
$pgq_script$;
        execute $pgq_script$
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
    suspect    boolean not null default false,
    hash       int,
    unmatched_by bigint,
    failures   jsonb,
    ids        int8multirange not null
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index ready_rank_idx on pgq.ready (queue_id, rank);
create index ready_lane_idx on pgq.ready (lane_id, rank) where lane_id is not null;
create index ready_hash_idx on pgq.ready (queue_id, hash, rank) where hash is not null;
create index ready_xid_idx on pgq.ready (queue_id, xid);
create index ready_expires_idx on pgq.ready (queue_id, expires_at)
    where expires_at is not null;
-- If many rows have expired, claims find the others by this index: see _past_expired.
create index ready_lasting_idx on pgq.ready (queue_id, rank) where expires_at is null;
comment on table pgq.ready is
    'Messages that can be claimed. Rows are inserted and deleted, never updated.';
comment on column pgq.ready.lane_id is
    'The lane of all ids in the row; null: the queue has no lanes.';
comment on column pgq.ready.rank is
    'Delivery order, ascending: priority, then redeliveries, then the lowest id.';
comment on column pgq.ready.attempt is 'Deliveries so far.';
comment on column pgq.ready.size is 'The number of ids in the set.';
comment on column pgq.ready.xid is
    'The transaction that inserted the row. Claims use it to find rows that an earlier scan could '
    'not see.';
comment on column pgq.ready.grouped is 'The row is the head of an ordering group.';
comment on column pgq.ready.suspect is
    'A lease of these ids has timed out, so the row is delivered alone.';
comment on column pgq.ready.hash is
    'The hash of the value that all ids have in the hashed lane key. 0: the value is not a '
    'scalar. Null: the lane has no hashed key.';
comment on column pgq.ready.unmatched_by is
    'A filter that was tested on every id of the row and matches none; null: not known.';
comment on column pgq.ready.failures is
    'Earlier failures: an array with an object per attempt.';
revoke all on table pgq.ready from public;
$pgq_script$;
        execute $pgq_script$
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
comment on table pgq.scheduled is 'Messages that become ready later: delayed ones and retries.';
comment on column pgq.scheduled.attempt is 'Deliveries so far.';
comment on column pgq.scheduled.grouped is 'The messages are heads of ordering groups.';
revoke all on table pgq.scheduled from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/18_lease.sql

create sequence pgq.lease_id maxvalue 6291455 cycle;
comment on sequence pgq.lease_id is
    'Numbers leases of one row and at most a minute that end in the same second. The unique index '
    'rejects duplicates.';
revoke all on sequence pgq.lease_id from public;

-- The unique index cannot compare a lease of several rows with a lease of one row. So leases that
-- may have several rows use numbers of their own, and each number is looked up before it is used.
create sequence pgq.checked_lease_id minvalue 6291456 maxvalue 8388607 cycle;
comment on sequence pgq.checked_lease_id is
    'Numbers leases that end in the same second and are long or may have several rows.';
revoke all on sequence pgq.checked_lease_id from public;

create sequence pgq.endless_lease_id;
comment on sequence pgq.endless_lease_id is 'Numbers leases that never expire.';
revoke all on sequence pgq.endless_lease_id from public;

-- The token begins with the second in which the lease was to end, so that its index finds expired
-- leases too. Without an index on until, claims are cheaper and an extension is a HOT update.
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
    ids        int8multirange not null,
    flow       bigint,
    permits    int8multirange,
    shared     boolean,
    runs       boolean not null default false
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
    fillfactor = 80
);
create unique index lease_id_idx on pgq.lease (lease_id, part) with (fillfactor = 100);
create unique index lease_key_idx on pgq.lease (queue_id, key, part) where key is not null;
-- Only for limited queues. Without the size, so that an ack of a part stays HOT.
create index lease_flow_idx on pgq.lease (queue_id, flow, lease_id) where flow is not null;
comment on table pgq.lease is 'Messages held by consumers: the id sets of claims.';
comment on column pgq.lease.lease_id is
    'The token for ack, nack, bury and extend. It encodes the second in which the lease '
    'originally expires.';
comment on column pgq.lease.part is
    '0: the only row of the lease. 1, 2, ...: one row of several, because messages differ in '
    'attempts or failures, or because the lease has thousands of ids with gaps.';
comment on column pgq.lease.attempt is 'The number of this delivery, from 1.';
comment on column pgq.lease.grouped is 'The messages belong to ordering groups.';
comment on column pgq.lease.journal is
    'Whether an ack is recorded: the setting of the queue at the time of the claim.';
comment on column pgq.lease.holder is 'application_name of the claiming session.';
comment on column pgq.lease.key is 'The name that the caller gave to the claim.';
comment on column pgq.lease.flow is
    'The lane that a limit on leased messages counts; 0: the whole queue; null: no such limit.';
comment on column pgq.lease.permits is
    'The permits that the lease holds under a limit on leased messages. It uses the first ones, '
    'one for each message that it still has.';
comment on column pgq.lease.shared is
    'Other messages of the lease were taken back before, so the remaining ones were not alone '
    'when the lease timed out.';
comment on column pgq.lease.runs is
    'The row may hold several messages of a group: the head and messages after it.';
revoke all on table pgq.lease from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/19_claim_types.sql

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
comment on type pgq.claimed is 'A message that a consumer has claimed.';
revoke all on type pgq.claimed from public;

-- A claim in progress: the data with which functions take its messages and write its lease.
create type pgq._claim as (
    queue_id   int,
    lease_id   bigint,
    part       int,          -- number of the next lease row; 0: the lease has one row
    n          int,          -- messages still wanted
    claimed_at timestamptz,
    until      timestamptz,
    journal    boolean,
    key        text,
    low        bigint,       -- rank at which the scan of ready rows begins
    permits    int8multirange,  -- for the messages of the claim; null: no such limit
    flow       int           -- leases are counted: 0 by queue, 1 by lane; null: not at all
);
comment on type pgq._claim is 'A claim in progress.';
revoke all on type pgq._claim from public;

-- The lease that a fast path of claim has written: the data needed to read its messages.
create type pgq._fast_lease as (
    lease_id bigint,         -- null: nothing was taken
    size     int,
    attempt  int,
    ids      int8multirange
);
comment on type pgq._fast_lease is 'A lease of one row that was just written.';
revoke all on type pgq._fast_lease from public;

-- The low watermark of a queue: no ready row before rank that the snapshot could see can be
-- claimed. New rows are found by their transaction, so that no claim has to walk over consumed rows
-- that VACUUM cannot remove yet. The same for leases and scheduled rows, which are in the order of
-- time; rows that a long transaction commits late are found by a full scan.
create type pgq._low as (
    rank   bigint,
    high   bigint,           -- fast paths look for the head up to this rank: see _find_head
    era    bigint,           -- the current era
    first_id bigint,         -- messages from this id on are in that era, or in a later one
    seen   pg_snapshot,
    own    xid8,             -- transaction that noted it, if it had an id: it may write more
    size   int,              -- messages in the row at the head; 0: no row; null: no fast path
    tick   bigint,           -- fortieth of a second in which it was noted
    since  bigint,           -- tick in which a scan last began at the very first row
    upkeep bigint,           -- tick of the last upkeep; negative: it has moved something
    lease  bigint,           -- the last upkeep saw no lease before this token
    due    timestamptz,      -- the last upkeep saw no scheduled row before this time
    swept  bigint,           -- tick in which upkeep last read all leases and scheduled rows
    expired boolean          -- upkeep has left expired rows
);
comment on type pgq._low is 'How far claims have consumed a queue.';
revoke all on type pgq._low from public;

-- Ready rows before a low watermark that its snapshot could not see.
create type pgq._late as (
    places  tid[],           -- in delivery order
    rank    bigint,          -- of the first one
    size    bigint,          -- messages in them
    suspect boolean,         -- one of them holds suspects
    found   bigint           -- new rows that were read
);
comment on type pgq._late is 'Rows that a low watermark does not cover.';
revoke all on type pgq._late from public;

-- The next rows of a queue: late rows first, then the head.
create type pgq._queue_head as (
    low     pgq._low,        -- the watermark that was noted
    late    pgq._late,
    place   tid,             -- of the first row behind the watermark; null: none
    rank    bigint,
    size    int,
    suspect boolean,
    places  tid[]            -- where many rows have expired: the first ones that have not
);
comment on type pgq._queue_head is 'The next rows of a queue.';
revoke all on type pgq._queue_head from public;

-- The result of a claim.
create type pgq._taken as (
    lease_id bigint,         -- null: nothing
    size     int,
    missed   tid[]           -- rows of which another transaction may put a part back
);
comment on type pgq._taken is 'The lease and the number of messages that a claim has taken.';
revoke all on type pgq._taken from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/20_dead_letter.sql

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
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/21_filter.sql

create table pgq.filter (
    filter_id  bigint generated always as identity,
    queue_id   int not null,
    hash       bigint not null,
    document   jsonb not null,
    lane_keys  text[],
    scope      text not null,
    path       jsonpath not null,
    equal      jsonb,
    lane_path  jsonpath,
    lane_final boolean not null,
    lane_hashes int[],
    created_at timestamptz not null default now(),
    constraint filter_pkey primary key (filter_id)
);
create index filter_hash_idx on pgq.filter (hash);
create index filter_queue_idx on pgq.filter (queue_id);
comment on table pgq.filter is 'Compiled filters, found by the hash of their document.';
comment on column pgq.filter.queue_id is
    'The first queue that used the filter; the filter counts toward the limit of this queue. '
    'Other queues may use it, too.';
comment on column pgq.filter.equal is
    'The headers of a filter that only tests headers for equality: claims then test headers @> '
    'equal. Null for other filters.';
comment on column pgq.filter.lane_keys is 'The lane keys that the filter was projected to.';
comment on column pgq.filter.lane_path is
    'The filter projected to the lane keys that are not hashed.';
comment on column pgq.filter.lane_final is
    'The lane keys alone decide, so no message needs testing.';
comment on column pgq.filter.lane_hashes is
    'Hashes that the hashed lane key of a match can have; null: any.';
revoke all on table pgq.filter from public;

-- Two claims may store the first cursor at once: both rows are right, and no claim waits.
create table pgq.filter_scan (
    filter_id bigint not null,
    queue_id  int not null,
    low       pgq._low not null,
    noted_at  timestamptz not null
) with (fillfactor = 50);
create index filter_scan_idx on pgq.filter_scan (filter_id, queue_id);
comment on table pgq.filter_scan is
    'Scan cursors of filters. No ready row before the rank of the cursor holds a match, among the '
    'rows that the snapshot of low could see.';
revoke all on table pgq.filter_scan from public;

-- Claims append rows and maintain() adds them up: no row is contended.
create table pgq.filter_hit (
    filter_id bigint not null,
    queue_id  int not null,
    claims    bigint not null,
    tested    bigint not null,
    matched   bigint not null,
    used_at   timestamptz not null,
    last_at   timestamptz
);
comment on table pgq.filter_hit is
    'Counters of filters. The counters of a filter are the sum over its rows.';
comment on column pgq.filter_hit.filter_id is '0: the sum of removed filters.';
comment on column pgq.filter_hit.last_at is 'When a claim last found a match.';
revoke all on table pgq.filter_hit from public;

-- The lanes of a queue that can hold a match for a filter.
create type pgq._lanes as (
    kept    int[],           -- lanes that can hold a match; null: any ready row can
    sure    int[],           -- lanes in which every message matches
    stale   int[],           -- kept lanes of other keys than the queue has now
    hashes  int[],           -- hashes that a match can have, except in stale lanes; null: any
    by_lane boolean          -- few kept lanes, or hashes: scan each of them separately
);
comment on type pgq._lanes is 'The lanes that can hold a match for a filter.';
revoke all on type pgq._lanes from public;

-- What one scan of a queue has found.
create type pgq._scan as (
    places tid[],            -- rows that hold matches
    sets   int8multirange[], -- their ids that match
    counts int[],            -- how many these are
    last   bigint,           -- rank of the last of these rows
    count  bigint            -- how many messages match
);
comment on type pgq._scan is 'Ready rows that hold matches, and the matches.';
revoke all on type pgq._scan from public;

-- The result of a scan for matches.
create type pgq._found as (
    among  tid[],            -- rows to scan next, instead of the queue
    places tid[],            -- rows that hold matches
    sets   int8multirange[], -- their ids that match; null: all of them
    counts int[],            -- how many these are
    tested bigint,           -- messages that were tested
    skipped bigint,          -- rows in which this filter is known to match nothing
    low    bigint,           -- rank from which the scan continues; null: it has reached the end
    high   bigint,           -- no match before this rank is left; null: not known
    partly bigint            -- rank of the row that holds the n-th match: the rest is not tested
);
comment on type pgq._found is 'The result of a scan for matches.';
revoke all on type pgq._found from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/22_journal.sql

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
    result     jsonb,
    ids        int8multirange not null
) partition by list (era);
create table pgq.journal_0 partition of pgq.journal for values in (0);
create table pgq.journal_1 partition of pgq.journal for values in (1);
create table pgq.journal_2 partition of pgq.journal for values in (2);
-- Results are few: acknowledgements without one are not in these indexes.
create index journal_0_result_idx on pgq.journal_0 (lower(ids)) where result is not null;
create index journal_1_result_idx on pgq.journal_1 (lower(ids)) where result is not null;
create index journal_2_result_idx on pgq.journal_2 (lower(ids)) where result is not null;
comment on table pgq.journal is
    'The audit log: a row for each call that ended a lease or moved a set of messages. The '
    'message itself records its publication. The row that ended a lease also records the claim.';
comment on column pgq.journal.event is
    'ack, nack, release, bury, timeout, expire, replay, discard, cancel, purge, move (to another '
    'queue), arrive (from another queue), reschedule; caused by a later message with the same '
    'dedup key: replace, postpone.';
comment on column pgq.journal.result is
    'The result that pgq.finish has stored for the one message in ids; null: none.';
revoke all on table pgq.journal, pgq.journal_0, pgq.journal_1, pgq.journal_2 from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/23_dedup.sql

-- Keys belong to a queue: each queue has its own window, and its keys are dropped with it.
create table pgq.dedup (
    queue_id   int not null,
    topic      text not null,
    dedup_key  text not null,
    message_id bigint not null,
    until      timestamptz not null,
    due_at     timestamptz,
    constraint dedup_pkey primary key (queue_id, topic, dedup_key)
);
create index dedup_until_idx on pgq.dedup (until);
comment on table pgq.dedup is
    'Dedup keys that a queue has seen within its window, and the message that has the key.';
comment on column pgq.dedup.due_at is
    'When the message is due, in a queue that replaces or postpones. A later message uses it to '
    'find the row.';
revoke all on table pgq.dedup from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/24_group.sql

-- Only the head of an ordering group is ready, scheduled or leased. The others wait in the group
-- backlog, which claims do not read.
create table pgq.group_head (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    constraint group_head_pkey primary key (queue_id, group_key)
) with (fillfactor = 80);
comment on table pgq.group_head is 'The head of each ordering group: its next message.';
revoke all on table pgq.group_head from public;

create table pgq.group_line (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    failures   jsonb,
    due_at     timestamptz,
    constraint group_line_pkey primary key (queue_id, group_key, message_id)
);
comment on table pgq.group_line is
    'The group backlog: messages of ordering groups that wait for their turn.';
comment on column pgq.group_line.due_at is
    'The earliest delivery time of the message; null: as published.';
revoke all on table pgq.group_line from public;

create table pgq.group_stall (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null
);
create index group_stall_queue_idx on pgq.group_stall (queue_id);
comment on table pgq.group_stall is
    'Deferred advances: the head ended while a publisher held the group. Later claims advance it.';
revoke all on table pgq.group_stall from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/25_waiter.sql

create table pgq.waiter (
    queue_id int not null,
    waiter   text not null,
    until    timestamptz not null,
    horizon  xid8,
    armed    boolean not null default false,
    constraint waiter_pkey primary key (queue_id, waiter)
) with (fillfactor = 50);
comment on table pgq.waiter is
    'Listeners: consumers that sleep or are about to sleep. Publishing notifies them.';
comment on column pgq.waiter.until is
    'The listener is removed at this time, unless it renews its registration.';
comment on column pgq.waiter.horizon is
    'Publishing transactions before this one may not have seen the listener.';
comment on column pgq.waiter.armed is
    'All these transactions have ended, so every new message notifies the listener.';
revoke all on table pgq.waiter from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/26_handled.sql

create table pgq.handled (
    handled_id bigint generated always as identity,
    role       text not null,
    handler    text not null,
    message_id bigint not null,
    handled_at timestamptz not null,
    constraint handled_pkey primary key (role, handler, message_id)
);
create index handled_order_idx on pgq.handled (role, handler, handled_id);
create index handled_at_idx on pgq.handled (handled_at);
comment on table pgq.handled is
    'The newest messages that each handler has seen.';
comment on column pgq.handled.role is
    'The role of the handler, which called pgq.seen; empty: the owner.';
revoke all on table pgq.handled from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/27_binding_hit.sql

-- Publishing appends rows and maintain() adds them up: no row is contended.
create table pgq.binding_hit (
    binding_id int not null,
    matches    bigint not null,
    last_at    timestamptz not null,
    added_up   boolean not null default false
);
comment on table pgq.binding_hit is
    'How often subscriptions have matched. The count of a binding is the sum over its rows.';
comment on column pgq.binding_hit.added_up is
    'The row is a sum of earlier rows, which pgq.traffic has counted.';
revoke all on table pgq.binding_hit from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/28_queue_right.sql

-- The calling role. A SECURITY DEFINER function cannot use current_user, which is the owner, and
-- must not use session_user or the setting "role": when a superuser analyzes a table, these name
-- the superuser, while the functions in that table's indexes run as the table's owner. So the
-- caller is a parameter, current_user by default: defaults are evaluated and domains are checked
-- before the function begins, with the caller's own identity, and no other value passes.
create domain pgq.caller as name not null
    constraint caller_is_current_user check (value = current_user);
comment on domain pgq.caller is
    'The role that calls a function. Leave it out: it is current_user, and no other value is '
    'accepted.';
-- No call of a function needs this right. A role that had it could store values for another role.
revoke all on type pgq.caller from public;

-- No foreign key: when a role drops a queue, maintain() removes the rights to it and revokes the
-- privileges. A transaction that changes privileges blocks others that do until it ends.
create table pgq.queue_right (
    queue_id int not null,
    -- By oid, so that a later role of the same name inherits nothing; shown and dumped by name.
    role     regrole not null,
    "right"  text not null,
    constraint queue_right_pkey primary key (queue_id, role, "right"),
    constraint queue_right_known check ("right" in ('publish', 'consume', 'admin'))
);
comment on table pgq.queue_right is 'Rights of roles to queues: written by grant and revoke.';
comment on column pgq.queue_right.role is 'The role; its members have the right too.';
comment on column pgq.queue_right."right" is
    'publish: to the topics that the queue receives; consume: claim and inspect; admin: both, and '
    'change or drop the queue.';
revoke all on table pgq.queue_right from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/29_staged.sql

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
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/30_stream.sql

create table pgq.stream (
    queue_id  int not null,
    consumer  text not null,
    batch     bigint not null,
    owner     text,
    until     timestamptz not null,
    stream_id uuid not null default gen_random_uuid(),
    query     text,
    committed bigint,
    constraint stream_pkey primary key (queue_id, consumer)
) with (fillfactor = 50);
comment on table pgq.stream is
    'Consumers that work in numbered batches, each a named claim. The checkpoint of a stream '
    'refers to these numbers.';
comment on column pgq.stream.batch is 'The last batch that is finished; its messages are done.';
comment on column pgq.stream.owner is 'The process that owns the name now; null: none.';
comment on column pgq.stream.until is
    'The owner loses the name at this time unless it renews it.';
comment on column pgq.stream.stream_id is
    'Distinguishes this consumer from consumers of the same name in another database, or of an '
    'earlier time.';
comment on column pgq.stream.query is
    'The query whose checkpoint numbers the batches. pgq.stream_bind rejects another query.';
comment on column pgq.stream.committed is
    'The last batch that pgq.commit_batch has finished, in one transaction with its results.';
revoke all on table pgq.stream from public;

create table pgq.lineage (
    reader       text not null,
    queue_id     int not null,
    consumer     text not null,
    batch        bigint not null,
    size         bigint not null,
    read_at      timestamptz not null,
    committed_at timestamptz,
    wrote        jsonb,
    constraint lineage_pkey primary key (reader, queue_id, consumer)
);
create index lineage_batch_idx on pgq.lineage (queue_id, consumer, batch);
comment on table pgq.lineage is
    'The readers of recent batches of each stream, and what was committed with them.';
comment on column pgq.lineage.reader is
    'The execution of an engine that reads the batch, such as query, run and batch of Spark.';
comment on column pgq.lineage.size is 'The number of messages in the batch when it was read.';
comment on column pgq.lineage.committed_at is
    'When pgq.commit_batch finished the batch; null: another call did, or none.';
comment on column pgq.lineage.wrote is 'How many rows went to each table, as the writer reports.';
revoke all on table pgq.lineage from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/31_archive.sql

create table pgq.archive (
    wait  interval not null,
    owner text,
    until timestamptz
);
comment on table pgq.archive is
    'One row while the log is archived. It says how long an era that has not been archived is '
    'kept beyond its retention. No row: eras do not wait for an archive.';
comment on column pgq.archive.owner is 'The process that currently archives; null: none.';
comment on column pgq.archive.until is
    'The owner loses the archive at this time, unless it renews its ownership.';
revoke all on table pgq.archive from public;

-- A copy that failed halfway stays where it is. Only the last attempt can be confirmed, so no
-- attempt has to overwrite another one.
create table pgq.archive_copy (
    era     bigint not null,
    copy_id uuid not null default gen_random_uuid(),
    attempt int not null default 1,
    constraint archive_copy_pkey primary key (era)
);
comment on table pgq.archive_copy is 'Copies of eras that are still in the log.';
comment on column pgq.archive_copy.copy_id is
    'Distinguishes the copies of this era from those of other databases.';
comment on column pgq.archive_copy.attempt is
    'The last attempt to copy the era. Only this attempt can be confirmed.';
revoke all on table pgq.archive_copy from public;

create table pgq.archive_era (
    era         bigint not null,
    started_at  timestamptz not null,
    messages    bigint not null,
    checksum    bigint not null,
    low         bigint,
    high        bigint,
    old         int8multirange not null default '{}',
    path        text,
    archived_at timestamptz not null,
    constraint archive_era_pkey primary key (era)
);
comment on table pgq.archive_era is
    'Every era with a confirmed copy, and the path of the copy. Together with the live log, the '
    'copies have all messages that were published since the archive began.';
comment on column pgq.archive_era.low is 'The smallest id in the copy; null: it is empty.';
comment on column pgq.archive_era.high is 'The largest id in the copy.';
comment on column pgq.archive_era.old is
    'The ids in the copy that are not larger than all ids of earlier eras. Only these ids can '
    'also be in another copy.';
comment on column pgq.archive_era.path is 'The path of the copy, as its maker reports.';
revoke all on table pgq.archive_era from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/32_outcome.sql

-- Counters of failures and other events remain when the audit log's era is truncated. Calls append
-- rows and maintain() adds them up: no row is contended. Acknowledgements are not counted here,
-- because each of them would have to write one more row.
create table pgq.outcome (
    queue_id int not null,
    event    text not null,
    reason   text,
    size     bigint not null
);
comment on table pgq.outcome is
    'Counters of all events of a queue except acks. The counters of a queue are the sum over its '
    'rows.';
comment on column pgq.outcome.event is 'As in pgq.journal, without ack.';
comment on column pgq.outcome.reason is 'Why the messages became dead letters; null: they did not.';
revoke all on table pgq.outcome from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/33_relay.sql

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
    'What relays report of their destinations. The stream of the same name shows whether the '
    'relay is alive.';
comment on column pgq.relay.circuit is
    'closed: messages are sent. open: the relay sends nothing for a while. half-open: the relay '
    'tries the destination.';
comment on column pgq.relay.error is 'Why the last send failed; null: it did not.';
comment on column pgq.relay.changed_at is 'When the circuit changed to this state.';
revoke all on table pgq.relay from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/34_mutex.sql

-- Locks of pgq's own, by name. Advisory locks are unsuitable: every role can take them, so a role
-- without any right could block pgq.
create table pgq.mutex (
    what text not null,
    constraint mutex_pkey primary key (what)
);
insert into pgq.mutex values ('era'), ('maintain'), ('replay'), ('right');
comment on table pgq.mutex is 'Names to lock, for work that only one transaction may do at a time.';
revoke all on table pgq.mutex from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/35_maintenance.sql

create table pgq.maintenance (
    last_at         timestamptz,
    routing_version bigint,
    routed_at       timestamptz,
    counted_at      timestamptz,
    counted_seen    pg_snapshot,
    counted_by      xid8,
    counted_id      bigint not null default 0,
    counted_pages   int[] not null default '{0,0,0}',
    before_id       bigint not null default 0,
    before_pages    int[] not null default '{0,0,0}'
);
insert into pgq.maintenance values (null);
comment on table pgq.maintenance is 'One row: when pgq.maintain() last ran; null: never.';
comment on column pgq.maintenance.routed_at is
    'Transactions that began later see the bindings of routing_version: pgq.check() relies on it.';
comment on column pgq.maintenance.counted_at is
    'When events were last counted for pgq.traffic; null: never.';
comment on column pgq.maintenance.counted_seen is
    'The snapshot of that count: events that it could not see are not counted yet.';
comment on column pgq.maintenance.counted_by is
    'The transaction of that count: its own events are not counted yet.';
comment on column pgq.maintenance.before_id is
    'The last id, and the pages of the audit log''s slots, one count earlier. Transactions that '
    'began since then may have committed after the last count.';
revoke all on table pgq.maintenance from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/36_lane_choice.sql

create table pgq.lane_choice (
    queue_id  int not null,
    key       text not null,
    used      boolean not null,
    reason    text not null,
    chosen_at timestamptz not null,
    constraint lane_choice_pkey primary key (queue_id, key)
);
comment on table pgq.lane_choice is
    'Why maintain() has added or dropped lane keys of a queue with lane_keys {auto}.';
comment on column pgq.lane_choice.used is 'The field is a lane key; false: it was dropped.';
revoke all on table pgq.lane_choice from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/36_operate_types.sql

-- The waiting messages of a queue that an operator's call selects.
create type pgq._selection as (
    queue_id  int,
    ids       int8multirange, -- only these; null: any
    spared    int8multirange, -- but not these
    path      jsonpath,       -- only those that match the compiled filter; null: any
    scope     text,
    dedup_key text,           -- only those with this key; null: any
    tested    boolean,        -- messages have to be read to be selected
    now       timestamptz
);
comment on type pgq._selection is 'The messages that an operator''s call selects.';
revoke all on type pgq._selection from public;

-- Waiting messages that were taken out of a queue.
create type pgq._withdrawn as (
    due_at   timestamptz,     -- -infinity: they were ready; null: they wait, as published
    attempt  int,
    failures jsonb,
    grouped  boolean,
    size     int,
    ids      int8multirange
);
comment on type pgq._withdrawn is 'Waiting messages that were taken out of a queue.';
revoke all on type pgq._withdrawn from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/36_schedule.sql

create table pgq.schedule (
    name       text not null,
    topic      text not null,
    payload    jsonb not null,
    headers    jsonb not null,
    priority   int not null,
    expires_in interval,
    cron       text,
    every      interval,
    time_zone  text not null,
    missed     text not null,
    -- By oid, so that a later role of the same name inherits nothing; shown and dumped by name.
    role       regrole,
    started_at timestamptz not null,
    next_at    timestamptz,
    last_at    timestamptz,
    last_id    bigint,
    error      text,
    constraint schedule_pkey primary key (name),
    constraint schedule_cron_or_every check (num_nonnulls(cron, every) = 1),
    constraint schedule_missed_known check (missed in ('skip', 'one', 'all'))
) with (fillfactor = 50);
create index schedule_next_idx on pgq.schedule (next_at);
comment on table pgq.schedule is
    'Messages that claims and maintain() publish at regular times.';
comment on column pgq.schedule.cron is
    'Five fields: minute, hour, day, month, weekday. A schedule has either cron or every.';
comment on column pgq.schedule.every is 'The interval between two runs, counted from started_at.';
comment on column pgq.schedule.time_zone is 'The zone of cron, and of the days of every.';
comment on column pgq.schedule.missed is
    'Missed runs: skip them, run one for all of them, or run all.';
comment on column pgq.schedule.role is
    'The role with whose rights the messages are published; null: the owner.';
comment on column pgq.schedule.started_at is 'Runs are counted from this time.';
comment on column pgq.schedule.next_at is 'The next run; null: paused.';
comment on column pgq.schedule.last_at is 'When it last ran; null: never.';
comment on column pgq.schedule.last_id is 'The message of the last run.';
comment on column pgq.schedule.error is 'Why the last run failed; null: it did not.';
revoke all on table pgq.schedule from public;

-- A parsed cron expression. A field that begins with * does not choose the day.
create type pgq._cron as (
    minutes  int[],
    hours    int[],
    days     int[],
    months   int[],
    weekdays int[],
    either   boolean         -- days and weekdays are both chosen: one of them is enough
);
comment on type pgq._cron is 'A parsed cron expression.';
revoke all on type pgq._cron from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/37_limit.sql

create table pgq.queue_limit (
    queue_id        int not null,
    max_leased      int,
    rate            text,
    burst           int,
    lane_max_leased int,
    lane_rate       text,
    lane_burst      int,
    fair            boolean not null,
    step            float8,
    lane_step       float8,
    constraint queue_limit_pkey primary key (queue_id),
    constraint queue_limit_queue_exists foreign key (queue_id) references pgq.queue
        on delete cascade
);
comment on table pgq.queue_limit is
    'The limits on what may be claimed: one row for each queue with limits.';
comment on column pgq.queue_limit.max_leased is
    'The largest number of messages that may be leased at a time.';
comment on column pgq.queue_limit.rate is
    'The largest number of messages per interval, such as 100/min.';
comment on column pgq.queue_limit.burst is
    'How many messages may be claimed at once after a pause.';
comment on column pgq.queue_limit.lane_max_leased is 'Like max_leased, for each lane.';
comment on column pgq.queue_limit.lane_rate is 'Like rate, for each lane.';
comment on column pgq.queue_limit.lane_burst is 'Like burst, for each lane.';
comment on column pgq.queue_limit.fair is 'Claims take turns over the lanes.';
comment on column pgq.queue_limit.step is 'Seconds per message, from the rate.';
comment on column pgq.queue_limit.lane_step is 'Seconds per message of a lane.';
revoke all on table pgq.queue_limit from public;

-- A rate limit stores only one time: when its bucket will be full of tokens again. Spending tokens
-- moves the row to a later time, and claims read from the end of the index: old row versions that
-- VACUUM cannot remove yet cost nothing. The row of 1970 stays: claims lock it.
create table pgq.flow (
    queue_id int not null,
    lane     bigint not null,
    full_at  timestamptz not null,
    constraint flow_pkey primary key (queue_id, lane, full_at)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
comment on table pgq.flow is
    'The token buckets of limited queues and of their lanes, and rows that claims lock.';
comment on column pgq.flow.lane is
    '16 to 31: the shards of the whole queue. Other values: the hash of a lane''s label.';
comment on column pgq.flow.full_at is
    'When the bucket is full again; 1970: a row that claims lock.';
revoke all on table pgq.flow from public;

-- One place for all queues: where claims of several queues alternate, sessions fall back on rounds
-- of their own. Unlogged: after a crash a round begins anywhere.
create unlogged sequence pgq.turn minvalue 0;
comment on sequence pgq.turn is
    'The lane of a limited queue that had the last turn: queue_id * 2^32 + lane_id.';
revoke all on sequence pgq.turn from public;

-- The first row of a lane.
create type pgq._head as (
    lane_id int,
    lane    bigint,          -- the number under which limits count it
    place   tid,
    size    int,
    suspect boolean,
    full_at timestamptz,     -- its token bucket
    quota   int              -- messages to take; null: not known yet
);
comment on type pgq._head is 'The first row of a lane.';
revoke all on type pgq._head from public;

-- The part of a queue's limits that a claim may use.
create type pgq._budget as (
    n       int,             -- messages
    shards  int[],           -- the shards that the claim has locked
    permits int8multirange,  -- the free permits in them; null: no such limit
    full_at timestamptz[],   -- their token buckets
    tokens  int[]
);
comment on type pgq._budget is 'The part of a queue''s limits that a claim may use.';
revoke all on type pgq._budget from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/37_traffic.sql

-- Publishing and acknowledging write nothing here: maintain() counts rows of the log, the audit log
-- and binding_hit.
create table pgq.traffic (
    queue_id int not null,
    minute   timestamptz not null,
    event    text not null,
    size     bigint not null,
    constraint traffic_pkey primary key (queue_id, minute, event)
) with (fillfactor = 80);
comment on table pgq.traffic is
    'How many messages were received, done and failed in each minute of the last hours.';
comment on column pgq.traffic.event is
    'in: received; ack and the other events of pgq.journal; ready, dead: how many there were at '
    'the last count in that minute.';
revoke all on table pgq.traffic from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/38_finding.sql

create type pgq._finding as (
    severity text,           -- critical or warning
    queue    text,           -- null: not about one queue
    finding  text,           -- its name, for programs
    since    timestamptz,    -- null: not known
    detail   text,
    cure     text            -- a statement that fixes it, if there is one
);
comment on type pgq._finding is 'A problem that needs an operator.';
revoke all on type pgq._finding from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/39_result_waiter.sql

create table pgq.result_waiter (
    message_id bigint not null,
    waiter     text not null,
    until      timestamptz not null,
    constraint result_waiter_pkey primary key (message_id, waiter)
) with (fillfactor = 50);
comment on table pgq.result_waiter is
    'Sessions that wait for the end of a message: finishing, burying or cancelling notifies them.';
revoke all on table pgq.result_waiter from public;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/98_replica_identity.sql

-- The replica identity, for logical replication, of tables without a primary key. Without it a
-- publication FOR ALL TABLES makes PostgreSQL refuse every UPDATE and DELETE. It costs nothing
-- unless wal_level is logical; then the old row is written to the WAL.
alter table pgq.lease replica identity using index lease_id_idx;
alter table pgq.ready replica identity full;
alter table pgq.scheduled replica identity full;
alter table pgq.journal replica identity full;
alter table pgq.journal_0 replica identity full;
alter table pgq.journal_1 replica identity full;
alter table pgq.journal_2 replica identity full;
alter table pgq.route replica identity full;
alter table pgq.group_stall replica identity full;
alter table pgq.filter_scan replica identity full;
alter table pgq.filter_hit replica identity full;
alter table pgq.binding_hit replica identity full;
alter table pgq.outcome replica identity full;
alter table pgq.archive replica identity full;
alter table pgq.maintenance replica identity full;
$pgq_script$;
        execute $pgq_script$
-- sql/10_schema/99_dump.sql

-- pg_dump saves all state, but no caches (routes, compiled filters, anchors).
-- Without the rights of dropped roles: in another cluster their oids may be those of other roles.
$pgq_script$;
    end if;
    if v_extension then
        execute $pgq_script$
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
select pg_catalog.pg_extension_config_dump('pgq.lane_choice', '');
select pg_catalog.pg_extension_config_dump('pgq.ready', '');
select pg_catalog.pg_extension_config_dump('pgq.scheduled', '');
select pg_catalog.pg_extension_config_dump('pgq.lease', '');
select pg_catalog.pg_extension_config_dump('pgq.lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.checked_lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.endless_lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.letter', '');
select pg_catalog.pg_extension_config_dump('pgq.letter_dead_letter_id_seq', '');
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
select pg_catalog.pg_extension_config_dump('pgq.traffic', '');
select pg_catalog.pg_extension_config_dump('pgq.writer', '');
select pg_catalog.pg_extension_config_dump('pgq.stream', '');
select pg_catalog.pg_extension_config_dump('pgq.lineage', '');
select pg_catalog.pg_extension_config_dump('pgq.archive', '');
select pg_catalog.pg_extension_config_dump('pgq.archive_copy', '');
select pg_catalog.pg_extension_config_dump('pgq.archive_era', '');
select pg_catalog.pg_extension_config_dump('pgq.relay', '');
select pg_catalog.pg_extension_config_dump('pgq.queue_limit', '');
select pg_catalog.pg_extension_config_dump('pgq.flow', '');
select pg_catalog.pg_extension_config_dump('pgq.schedule',
    'where role is null or exists (select from pg_catalog.pg_roles r where r.oid = role)');
select pg_catalog.pg_extension_config_dump('pgq.queue_right',
    'where exists (select from pg_catalog.pg_roles r where r.oid = role)');
$pgq_script$;
    end if;
    execute $pgq_script$
-- sql/20_filter/00_filter_error.sql

-- Refuses a filter document: what is wrong, where in the document, and what to write instead.
create or replace function pgq._filter_error(message text, at text, hint text)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/01_regex_quote.sql

-- Text as a regular expression that matches just this text.
create or replace function pgq._regex_quote(literal text)
returns text
language sql immutable strict parallel safe
return pg_catalog.regexp_replace(literal, '([][\\.^$*+?(){}|])', '\\\1', 'g');
comment on function pgq._regex_quote(text) is
    'Escapes the characters that mean something in a regular expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/02_topic_regex.sql

-- AMQP topic pattern -> anchored regular expression; QU004 for an invalid pattern.
create or replace function pgq._topic_regex(pattern text)
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
        -- a # directly after a # adds nothing; a # in front includes the dot after it
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/03_matches_topic.sql

-- Whether a topic matches an AMQP pattern. Subscriptions use the same definition of wildcards.
create or replace function pgq.matches_topic(pattern text, topic text)
returns boolean
language sql immutable strict parallel safe security definer
set search_path = pg_catalog, pg_temp
return topic operator(pg_catalog.~) pgq._topic_regex(pattern);
comment on function pgq.matches_topic(text, text) is
    'Whether the topic matches the pattern. * is exactly one word, # is zero or more words, words '
    'are separated by dots, and case matters. QU004 if no topic can match the pattern.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/04_filter_parse_texts.sql

-- The text operators of a long list that are surely valid, as leaves: one statement for all of them
-- takes a tenth of the time. Others are left to pgq._filter_parse_alternative.
create or replace function pgq._filter_parse_texts(list jsonb, scope text, path text[])
returns jsonb[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select jsonb_build_object('op', case
                when i.text is not null then 'ilike'
                when o.name = 'equals-ignore-case' then 'ieq'
                else o.name end, 'in', scope, 'path', path, 'value', case
                when i.text is null then a.alternative -> o.name
                else to_jsonb(case o.name when 'suffix' then '%' else '' end
                    || regexp_replace(i.text, E'([\\\\%_])', E'\\\\\\1', 'g')
                    || case o.name when 'prefix' then '%' else '' end) end)
        from jsonb_array_elements(list) with ordinality as a (alternative, position),
            lateral (select case
                when a.alternative ? 'prefix' then 'prefix'
                when a.alternative ? 'suffix' then 'suffix'
                when a.alternative ? 'wildcard' then 'wildcard'
                when a.alternative ? 'equals-ignore-case' then 'equals-ignore-case' end
            ) as o (name),
            lateral (select case when o.name in ('prefix', 'suffix')
                    and jsonb_typeof(a.alternative -> o.name) = 'object'
                    and (a.alternative -> o.name) - 'equals-ignore-case' = '{}'
                    and jsonb_typeof(a.alternative -> o.name -> 'equals-ignore-case') = 'string'
                then a.alternative -> o.name ->> 'equals-ignore-case' end) as i (text)
        where jsonb_typeof(a.alternative) = 'object'
            and a.alternative - o.name = '{}'
            and (i.text is not null or jsonb_typeof(a.alternative -> o.name) = 'string')
            and length(coalesce(i.text, a.alternative ->> o.name)) <= 500
            and (o.name <> 'wildcard' or a.alternative ->> o.name
                ~ E'^[^*\\\\]*(?:\\*[^*\\\\]+){0,12}\\*?$')
        order by a.position);
end
$$;
comment on function pgq._filter_parse_texts(jsonb, text, text[]) is
    'The leaves of the text operators of a list that are surely valid.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/05_filter_check_regex.sql

-- Refuses a regular expression that PostgreSQL would take long to compile or to run.
create or replace function pgq._filter_check_regex(pattern text, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if pattern ~ E'^(?:[^\\\\]|\\\\[^1-9])*\\\\[1-9]' then
        perform pgq._filter_error('back-references are not supported', at,
            E'Write the regular expression without \\1 to \\9.');
    elsif pattern ~ E'^(?:[^[\\\\]|\\\\.|\\[\\^?\\]?(?:[^]\\\\]|\\\\.)*\\])*\\(\\?<?[=!]' then
        -- a lookahead makes the time for a text grow with the cube of its length
        perform pgq._filter_error('lookahead and lookbehind are not supported', at,
            'Write two tests: {"$regex": ...} for one, {"$not": {"key": {"$regex": ...}}} for the '
            'other.');
    elsif (select count(m.part[1]) from regexp_matches(pattern, E'\\\\.|\\(\\?|([?*+{])', 'g')
            as m (part)) > 12 then
        perform pgq._filter_error('the regular expression has too many quantifiers', at,
            'It has at most 12 of *, +, ? and {}.');
    end if;
    if pgq._filter_copies(pattern) > 1024 then
        perform pgq._filter_error('the regular expression repeats too much', at,
            'The bounds in braces, multiplied where groups are repeated, make at most 1024.');
    end if;
end
$$;
comment on function pgq._filter_check_regex(text, text) is
    'Validates a regular expression; QU004 if it could be slow.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/05_filter_copies.sql

-- The length of a regular expression with its bounds expanded: a bound copies a part of it.
create or replace function pgq._filter_copies(pattern text) returns numeric
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bounds constant text := E'(\\)?)\\{(\\d+)(?:,(\\d*))?\\}';
    v_copies numeric := length(pattern)::numeric;
    v_match text[];
begin
    -- a bound copies the atom before it; after a group, everything that may be in the group
    for v_match in select regexp_matches(pattern, v_bounds, 'g') loop
        if v_match[1] = '' then
            v_copies := v_copies + coalesce(nullif(v_match[3], ''), v_match[2])::numeric;
        end if;
    end loop;
    for v_match in select regexp_matches(pattern, v_bounds, 'g') loop
        if v_match[1] = ')' then
            v_copies := v_copies
                * greatest(coalesce(nullif(v_match[3], ''), v_match[2])::numeric, 1);
        end if;
    end loop;
    return v_copies;
end
$$;
comment on function pgq._filter_copies(text) is
    'The length of a regular expression with its bounds expanded.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/05_filter_is_anchored.sql

-- Does a regular expression begin at the start of a text, and never search?
create or replace function pgq._filter_is_anchored(pattern text)
returns boolean
language sql immutable strict parallel safe
return pattern operator(pg_catalog.~) E'^\\^[^|*+]*$'
    and pattern operator(pg_catalog.!~) E'\\{\\d+,\\}';
comment on function pgq._filter_is_anchored(text) is
    'Whether a regular expression matches at the start of a text only, and has bounds.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/05_filter_wide.sql

-- How many characters of a regular expression are classes, with the copies that bounds make. Each
-- class can double the states that PostgreSQL builds for a text. Exceptions: the match begins at
-- the start of the text, or there is only one class and it contains no other character of the
-- expression. After plain text that cannot overlap itself, fewer partial matches are possible at a
-- time.
create or replace function pgq._filter_wide(pattern text)
returns int
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_class constant text :=
        E'\\\\[dwsDWS]|\\.|\\[\\^?\\]?(?:\\[:[a-z]+:\\]|[^]\\\\]|\\\\.)*\\]';
    v_classes text[];
    v_head constant text := substring(pattern from E'^(?:[[:alnum:] _:,/=@#-](?![?*+{]))*');
    v_count numeric;
    v_bound numeric;
begin
    if pgq._filter_is_anchored(pattern) then
        return 0;
    end if;
    -- a class that is repeated without end is one state
    select array_agg(distinct t.part[2]),
        sum(case when t.part[3] ~ '^[*+]' then 0
            else coalesce(nullif(t.part[5], ''), t.part[4], '1')::numeric end)
    into v_classes, v_count
    from regexp_matches(pattern,
        format(E'(\\\\[^dwsDWS])|(%s)([*+]|\\{(\\d+)(?:,(\\d*))?\\})?', v_class), 'g') as t (part)
    where t.part[2] is not null;
    if v_classes is null or cardinality(v_classes) = 1 and regexp_replace(pattern,
            format(E'(?:%s)|\\{[\\d,]*\\}|\\(\\?:|[()|*+?^$]', v_class), '', 'g')
                !~ v_classes[1] then
        return 0;
    end if;
    for v_bound in
        select coalesce(nullif(m.part[2], ''), m.part[1])::numeric
        from regexp_matches(pattern, E'\\)\\{(\\d+)(?:,(\\d*))?\\}', 'g') as m (part)
    loop
        v_count := v_count * greatest(v_bound, 1);
    end loop;
    if strpos(substr(v_head, 2), left(v_head, 1)) = 0 and pattern !~ E'\\|' then
        v_count := ceil(v_count / (1 + length(v_head)));
    end if;
    return least(v_count, 1000)::int;
end
$$;
comment on function pgq._filter_wide(text) is
    'How many characters of a regular expression are classes.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/06_filter_head.sql

-- The plain text that a pattern begins with; if it ignores case, the first letter
-- or digit, in lower case.
create or replace function pgq._filter_head(operator text, pattern text)
returns text
language sql immutable strict parallel safe
return case
    when operator in ('like', 'wildcard') then substring(pattern from E'^[^*%_\\\\]*')
    when operator in ('ieq', 'ilike')
        then coalesce(lower(substring(pattern from '^[0-9A-Za-z]') collate "C"), '')
    else '' end;
comment on function pgq._filter_head(text, text) is 'The plain text that a pattern begins with.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/06_filter_head_groups.sql

-- Where a new regular expression begins among patterns that are sorted by the plain text that they
-- begin with. There are at most 16 groups: PostgreSQL keeps 32 compiled regular expressions.
create or replace function pgq._filter_head_groups(heads text[])
returns int[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_size constant int := greatest((cardinality(heads) + 15) / 16, 32);
    v_starts int[] := '{1}';
    v_start int := 1;
    v_family text := heads[1];
begin
    -- never split between a head and another that starts with it: a text may start with both
    for i in 2 .. cardinality(heads) loop
        if not starts_with(heads[i], v_family) then
            v_family := heads[i];
            if i - v_start >= v_size then
                v_start := i;
                v_starts := v_starts || i;
            end if;
        end if;
    end loop;
    return v_starts;
end
$$;
comment on function pgq._filter_head_groups(text[]) is
    'Where groups of patterns with a plain beginning start.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/06_filter_headed.sql

-- The current item (@), a string, matches one of these patterns, which are sorted by the plain text
-- that they begin with. Patterns with similar beginnings share one regular expression, and
-- comparisons select the one to try, because the time for a regular expression grows with its
-- length. For patterns that ignore case, each comparison is made with both cases of the first
-- letter.
create or replace function pgq._filter_headed(heads text[], regexes text[], ignoring boolean)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_starts constant int[] := pgq._filter_head_groups(heads);
    v_regex text;
    v_low text;
    v_high text;
    v_condition text;
begin
    for i in 1 .. cardinality(v_starts) loop
        v_regex := array_to_string(
            regexes[v_starts[i]:coalesce(v_starts[i + 1] - 1, cardinality(regexes))], '|');
        v_regex := format('@ like_regex %s flag "%s"', to_json(v_regex),
            case when ignoring then 'is' else 's' end);
        if ignoring then
            v_low := heads[v_starts[i]];
            v_high := heads[v_starts[i + 1]];
            v_condition := concat_ws(' || ', v_condition,
                format('((@ >= "%s" && @ < "%s" || @ >= "%s" && @ < "%s") && %s)',
                    v_low, coalesce(v_high, '{'), upper(v_low collate "C"),
                    coalesce(upper(v_high collate "C"), '['), v_regex));
        else
            v_condition := case when i = 1 then v_regex
                else format('((@ >= %s && %s) || (@ < %1$s && %3$s))', to_json(heads[v_starts[i]]),
                    v_regex, v_condition) end;
        end if;
    end loop;
    return v_condition;
end
$$;
comment on function pgq._filter_headed(text[], text[], boolean) is
    'The jsonpath condition of a string matching one of many patterns with a plain beginning.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/10_filter_node.sql

-- One test of one field, as a leaf of the syntax tree.
create or replace function pgq._filter_node(
    operator text, scope text, path text[], value jsonb default null)
returns jsonb
language sql stable parallel safe
return case when value is null
    then pg_catalog.jsonb_build_object('op', operator, 'in', scope, 'path', path)
    else pg_catalog.jsonb_build_object('op', operator, 'in', scope, 'path', path, 'value', value)
    end;
comment on function pgq._filter_node(text, text, text[], jsonb) is
    'A leaf of the syntax tree of a filter: {"op", "in", "path", "value"}.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/11_filter_combine.sql

-- and / or of trees; constants vanish, nested nodes of the same kind are spliced in.
create or replace function pgq._filter_combine(operator text, trees jsonb[])
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
    if cardinality(trees) = 1 then
        return trees[1];
    elsif v_absorbing = any (trees) then
        return v_absorbing;
    elsif cardinality(trees) <= 8 then
        -- for a few trees a statement would cost more than all the rest
        foreach v_tree in array trees loop
            if v_tree ->> 'op' = operator then
                v_of := v_of || (v_tree -> 'of');
            elsif v_tree <> v_neutral then
                v_of := v_of || jsonb_build_array(v_tree);
            end if;
        end loop;
    else
        select coalesce(jsonb_agg(e.tree order by t.position, e.position), '[]')
        into v_of
        from unnest(trees) with ordinality as t (tree, position),
            jsonb_array_elements(case t.tree ->> 'op' when operator then t.tree -> 'of'
                else jsonb_build_array(t.tree) end) with ordinality as e (tree, position)
        where t.tree <> v_neutral;
    end if;
    return case jsonb_array_length(v_of)
        when 0 then v_neutral
        when 1 then v_of -> 0
        else jsonb_build_object('op', operator, 'of', v_of) end;
end
$$;
comment on function pgq._filter_combine(text, jsonb[]) is
    'Joins trees by and / or, simplified.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/12_filter_negate.sql

-- The complement of a tree.
create or replace function pgq._filter_negate(tree jsonb)
returns jsonb
language sql stable parallel safe
return case
    when tree operator(pg_catalog.=) 'true'::jsonb then 'false'::jsonb
    when tree operator(pg_catalog.=) 'false'::jsonb then 'true'::jsonb
    when (tree operator(pg_catalog.->>) 'op') operator(pg_catalog.=) 'not'
        then tree operator(pg_catalog.->) 'of'
    else pg_catalog.jsonb_build_object('op', 'not', 'of', tree) end;
comment on function pgq._filter_negate(jsonb) is 'The complement of a tree, simplified.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/13_filter_policy_head.sql

-- The key after the first skip ones that all fields of a policy lie below; null: there is none.
create or replace function pgq._filter_policy_head(tree jsonb, skip int)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then pgq._filter_policy_head(tree -> 'of', skip)
        when tree ? 'of' then (
            select case when count(h.head) = count(*) and min(h.head) = max(h.head)
                then min(h.head) end
            from jsonb_array_elements(tree -> 'of') as t (tree),
                pgq._filter_policy_head(t.tree, skip) as h (head))
        when jsonb_array_length(tree -> 'path') > skip + 1 then tree -> 'path' ->> skip end;
end
$$;
comment on function pgq._filter_policy_head(jsonb, int) is
    'The key above all fields of a policy, if there is one.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/14_filter_cidr_group.sql

-- One group of an IPv6 address of which the first bits are fixed, as a regular expression: four
-- hexadecimal digits, and fewer where those in front may be 0.
create or replace function pgq._filter_cidr_group(value int, bits int)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_any constant text := '[0-9a-fA-F]';
    v_free int;
    v_low int;
    v_zeros int := 0;
    v_rest text := '';
begin
    if bits <= 0 then
        return v_any || '{1,4}';
    end if;
    for i in 1 .. least((bits + 3) / 4, 4) loop
        v_free := 1 << greatest(i * 4 - bits, 0);
        v_low := (value >> (16 - i * 4)) & 15;
        v_low := v_low - v_low % v_free;
        if v_low = 0 and v_free = 1 and v_zeros = i - 1 then
            v_zeros := i;
        elsif v_low = 0 and v_zeros = i - 1 and i < 4 then
            -- the digit may be 0 and left out
            return format('0{0,%s}(?:[%s]%s{%s}|%3$s{1,%4$s})', v_zeros,
                left('00112233445566778899', v_free * 2), v_any, 4 - i);
        else
            v_rest := v_rest || case when v_free = 1 and v_low < 10 then v_low::text
                else format('[%s]', substr('00112233445566778899aAbBcCdDeEfF', v_low * 2 + 1,
                    v_free * 2)) end;
        end if;
    end loop;
    return case
        when v_zeros = 4 then '0{1,4}'
        when bits > 12 then format('0{0,%s}%s', v_zeros, v_rest)
        when v_rest <> '' then format('0{0,%s}%s%s{%s}', v_zeros, v_rest, v_any, 4 - (bits + 3) / 4)
        else format('0{0,%s}%s{1,%s}', v_zeros, v_any, 4 - v_zeros) end;
end
$$;
comment on function pgq._filter_cidr_group(int, int) is
    'The regular expression of one group of an IPv6 address whose first bits are fixed.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/15_filter_cases.sql

-- A regular expression that ignores case, with each letter that the database's own locale does not
-- know the case of replaced by its two cases: the locale C knows ASCII only. The cases are those of
-- Unicode, from a collation that the server has; without one the letters stay as they are.
create or replace function pgq._filter_cases(regex text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_collation name;
    v_regex text;
begin
    if octet_length(regex) > length(regex) and getdatabaseencoding() = 'UTF8'
            and upper(chr(233)) = chr(233) then
        select c.collname into v_collation
        from pg_collation as c
        where c.collnamespace = 'pg_catalog'::regnamespace
            and c.collname in ('pg_c_utf8', 'und-x-icu', 'C.utf8')
            and c.collencoding in (-1, pg_char_to_encoding('UTF8'))
        order by c.collname = 'pg_c_utf8' desc, c.collname = 'und-x-icu' desc limit 1;
    end if;
    if v_collation is not null then
        execute format($statement$
            select string_agg(case
                    when octet_length(t.letter) = 1 or lower(t.letter collate %1$I) = t.letter
                        and upper(t.letter collate %1$I) = t.letter then t.letter
                    else '[' || t.letter || left(lower(t.letter collate %1$I), 1)
                        || left(upper(t.letter collate %1$I), 1) || ']' end,
                '' order by t.position)
            from regexp_split_to_table($1, '') with ordinality as t (letter, position)
            $statement$, v_collation)
        into v_regex using regex;
    end if;
    return coalesce(v_regex, regex);
end
$$;
comment on function pgq._filter_cases(text) is
    'A regular expression that ignores case, also of letters that the locale does not know.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/15_filter_cidr.sql

-- The texts that are an address of this network, as a regular expression. An IPv4 address is four
-- numbers without leading zeros; an IPv6 address may leave out one run of zero groups.
create or replace function pgq._filter_cidr(network inet)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bits constant int := masklen(network);
    v_fixed constant int := (v_bits + 15) / 16;
    v_hex constant text := encode(substr(inet_send(network), 5), 'hex');
    v_value int;
    v_free int;
    v_groups text[] := '{}';
    v_zero boolean[] := '{}';
    v_spellings text[];
    v_rest int;
begin
    if family(network) = 4 then
        for i in 1 .. 4 loop
            v_value := ('x' || substr(v_hex, i * 2 - 1, 2))::bit(8)::int;
            v_free := 1 << least(greatest(i * 8 - v_bits, 0), 8);
            v_value := v_value - v_value % v_free;
            v_groups := v_groups || case v_free
                when 256 then '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
                else '(?:' || (select string_agg(n.number::text, '|')
                    from generate_series(v_value, v_value + v_free - 1) as n (number)) || ')' end;
        end loop;
        return '^' || array_to_string(v_groups, E'\\.') || '$';
    end if;
    for i in 1 .. 8 loop
        v_value := ('x' || substr(v_hex, i * 4 - 3, 4))::bit(16)::int;
        v_free := 1 << least(greatest(i * 16 - v_bits, 0), 16);
        v_groups := v_groups || pgq._filter_cidr_group(v_value, v_bits - (i - 1) * 16);
        v_zero := v_zero || (v_value < v_free);
    end loop;
    v_spellings := array[array_to_string(v_groups, ':')];
    for i in 0 .. 7 loop
        -- :: after i groups; behind it only groups that are free, or also some that are fixed
        if true = all (v_zero[i + 1:v_fixed]) then
            v_rest := least(7 - i, 8 - v_fixed);
            v_spellings := v_spellings || (array_to_string(v_groups[:i], ':') || '::' || case v_rest
                when 0 then ''
                else format('(?:%s(?::%1$s){0,%s})?', v_groups[8], v_rest - 1) end);
        end if;
        for j in 9 - v_fixed .. 7 - i loop
            if true = all (v_zero[i + 1:8 - j]) then
                v_spellings := v_spellings || (array_to_string(v_groups[:i], ':') || '::'
                    || array_to_string(v_groups[9 - j:], ':'));
            end if;
        end loop;
    end loop;
    return '^(?:' || array_to_string(v_spellings, '|') || ')$';
end
$$;
comment on function pgq._filter_cidr(inet) is
    'The regular expression of the addresses of a network.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/16_filter_pattern.sql

-- The regular expression of a text operator; NULL for a pattern that ends inside an escape.
create or replace function pgq._filter_pattern(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_regex text;
begin
    case
        when operator in ('like', 'ilike') and strpos(pattern, E'\\') = 0 then
            v_regex := regexp_replace(
                replace(pgq._regex_quote(pattern), '_', '.'), '%+', '.*', 'g');
        when operator = 'wildcard' and strpos(pattern, E'\\') = 0 then
            v_regex := regexp_replace(pgq._regex_quote(pattern), E'(?:\\\\\\*)+', '.*', 'g');
        when operator in ('like', 'ilike') then
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
        when operator = 'wildcard' then
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
        when operator = 'topic' then
            return pgq._topic_regex(pattern);
        when operator = 'cidr' then
            return pgq._filter_cidr(pattern::inet);
        when operator = 'ieq' then
            v_regex := pgq._regex_quote(pattern);
        when operator = 'suffix' then
            v_regex := '.*' || pgq._regex_quote(pattern);
        else
            return pattern;
    end case;
    if operator in ('ieq', 'ilike') then
        v_regex := pgq._filter_cases(v_regex);
    end if;
    -- an open end needs no anchor, and is cheaper without
    return case when v_regex like '.*%' then substr(v_regex, 3) || '$'
        when v_regex ~ E'[^\\\\]\\.\\*$' then '^' || left(v_regex, -2)
        else '^' || v_regex || '$' end;
end
$$;
comment on function pgq._filter_pattern(text, text) is
    'The regular expression of a text operator of the filter language.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/17_filter_is_regex.sql

-- Does a text operator need a regular expression? Equality and prefixes do without.
create or replace function pgq._filter_is_regex(operator text, pattern text)
returns boolean
language sql immutable strict parallel safe
return case operator
    when 'prefix' then false
    when 'substr' then pattern operator(pg_catalog.<>) ''
    when 'like' then pattern operator(pg_catalog.!~) E'^[^\\\\%_]*%*$'
    when 'wildcard' then pattern operator(pg_catalog.!~) E'^[^\\\\*]*\\**$'
    else true end;
comment on function pgq._filter_is_regex(text, text) is
    'Whether a text operator runs as a regular expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/18_filter_policy_needs.sql

-- Does the policy need a field that is there? Not if {"exists": false} alone can satisfy it.
create or replace function pgq._filter_policy_needs(tree jsonb)
returns boolean
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then false
        when tree ->> 'op' = 'or' then (select bool_and(pgq._filter_policy_needs(t.tree))
            from jsonb_array_elements(tree -> 'of') as t (tree))
        when tree ->> 'op' = 'and' then (select bool_or(pgq._filter_policy_needs(t.tree))
            from jsonb_array_elements(tree -> 'of') as t (tree))
        else true end;
end
$$;
comment on function pgq._filter_policy_needs(jsonb) is
    'Whether a policy is false on a message without any of its fields.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/18_filter_suffix.sql

-- The text that a pattern asks a text to end with; null for a pattern that asks for more.
create or replace function pgq._filter_suffix(operator text, pattern text)
returns text
language sql immutable strict parallel safe
return case operator
    when 'suffix' then pattern
    when 'wildcard' then substring(pattern from E'^\\*+([^*\\\\]+)$')
    when 'like' then substring(pattern from E'^%+([^%_\\\\]+)$') end;
comment on function pgq._filter_suffix(text, text) is
    'The text that a pattern asks a text to end with.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/19_filter_policy_leaf.sql

-- A leaf of a policy, or the complement of one, without the first keys of its path.
create or replace function pgq._filter_policy_leaf(tree jsonb, skip int)
returns jsonb
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when skip = 0 then tree
        when tree ->> 'op' = 'not' then pgq._filter_negate(
            pgq._filter_policy_leaf(tree -> 'of', skip))
        else tree || jsonb_build_object('in', 'item', 'path',
            jsonb_path_query_array(tree -> 'path', 'strict $[$skip to last]',
                jsonb_build_object('skip', skip))) end;
end
$$;
comment on function pgq._filter_policy_leaf(jsonb, int) is
    'A leaf of a policy without the first keys of its path.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/20_filter_check_pattern.sql

-- Refuses a text operand that is too long, or that PostgreSQL cannot compile.
-- Catching the error takes a subtransaction, which a parallel plan cannot start before
-- PostgreSQL 17.
create or replace function pgq._filter_check_pattern(operator text, pattern jsonb, at text)
returns void
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pattern text := pattern #>> '{}';
    v_limit int := case when operator in ('regex', 'iregex') then 512 else 1024 end;
    v_reason text;
begin
    if jsonb_typeof(pattern) is distinct from 'string' then
        perform pgq._filter_error('the operand must be a string', at,
            'Text operators compare strings: {"key": {"$like": "order-%"}}');
    elsif length(v_pattern) > v_limit then
        perform pgq._filter_error('the pattern is too long', at,
            format('A pattern has at most %s characters.', v_limit));
    elsif operator in ('like', 'ilike', 'wildcard') then
        if pgq._filter_pattern(operator, v_pattern) is null then
            perform pgq._filter_error('the pattern has a stray backslash', at, case operator
                when 'wildcard' then E'Write \\* for a star and \\\\ for a backslash.'
                else E'Write \\\\ for a backslash, \\% and \\_ for the characters % and _.' end);
        elsif length(regexp_replace(v_pattern, case operator when 'wildcard'
                then E'\\\\.|[^*]|\\*+$' else E'\\\\.|[^%_]|%+$' end, '', 'g')) > 12 then
            perform pgq._filter_error('the pattern has too many wildcards', at,
                'A pattern has at most 12 wildcards before its end.');
        end if;
        return;
    elsif operator not in ('regex', 'iregex', 'topic') then
        return;
    elsif operator <> 'topic' then
        perform pgq._filter_check_regex(v_pattern, at);
    end if;
    begin
        perform '' ~ pgq._filter_pattern(operator, v_pattern);
    exception
        when sqlstate 'QU004' then
            get stacked diagnostics v_reason = pg_exception_hint;
            perform pgq._filter_error('the topic pattern is not valid', at, v_reason);
        when invalid_regular_expression then
            perform pgq._filter_error('the pattern does not compile', at,
                'PostgreSQL says: ' || sqlerrm || '.');
    end;
end
$$;
comment on function pgq._filter_check_pattern(text, jsonb, text) is
    'Validates the operand of a text operator; QU004 if it cannot be used.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/21_filter_moment.sql

-- A timestamp operand as epoch seconds, or {"now": seconds} for a moment relative to now.
-- Only ISO 8601 is read, in UTC if no zone is given, so that no session setting can matter.
create or replace function pgq._filter_moment(operand jsonb, at text)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/22_filter_membership.sql

-- The field equals one of these scalars. In msg there is no JSON null: null means missing.
create or replace function pgq._filter_membership(
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

-- How many nodes a list of values counts as: a few are compared one by one, many are searched.
create or replace function pgq._filter_value_nodes("values" jsonb) returns int
language sql immutable strict parallel safe
return least(jsonb_array_length("values"), 8) + jsonb_array_length("values") / 20;
comment on function pgq._filter_value_nodes(jsonb) is 'How many nodes a list of values counts as.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/23_filter_unless.sql

-- A negative operator: the field has a value, and the positive test fails on it.
create or replace function pgq._filter_unless(scope text, path text[], tree jsonb)
returns jsonb
language sql stable parallel safe
return pgq._filter_combine('and',
    array[pgq._filter_node('some', scope, path), pgq._filter_negate(tree)]);
comment on function pgq._filter_unless(text, text[], jsonb) is
    'The tree of a negative operator: missing and null fail it, as they fail the positive one.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/24_filter_check_list.sql

-- Refuses an operand that is not a list, is empty, is too long, or holds more than scalars.
create or replace function pgq._filter_check_list(operand jsonb, scalars boolean, at text)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/25_filter_check_structure.sql

-- Refuses an array or object operand that is too large or too deep to be compared. Returns the
-- number of values in it.
create or replace function pgq._filter_check_structure(operand jsonb, at text)
returns int
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    -- the strict path counts the operand itself, too
    v_values int := (
        select count(*) - 1 from jsonb_path_query(operand, 'strict $.**'))::int;
begin
    if v_values > 1000 then
        perform pgq._filter_error('the operand is too large', at,
            'An array or object to compare with holds at most 1000 values.');
    elsif jsonb_path_exists(operand, 'strict $.**{9}') then
        perform pgq._filter_error('the operand is nested too deeply', at,
            'An array or object to compare with is nested at most 8 levels deep.');
    end if;
    return v_values;
end
$$;
comment on function pgq._filter_check_structure(jsonb, text) is
    'Validates an array or object operand and counts its values; QU004 if it is over a limit.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/26_filter_check_path.sql

-- Refuses a path that is too long, or a field that msg does not have.
create or replace function pgq._filter_check_path(scope text, path text[], at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if cardinality(path) > 16 then
        perform pgq._filter_error('the path is too long', at, 'A path has at most 16 keys.');
    elsif scope = 'headers' and cardinality(path) > 1 then
        perform pgq._filter_error('headers have no parts', at,
            'A header is a string, a number, true, false or null. Write '
            '{"payload": {"key": ...}} for a field of the payload, '
            '{"key": [{"prefix": "a"}]} for an operator of SNS.');
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/27_filter_check_cidr.sql

-- Refuses an operand of cidr that is not a network.
create or replace function pgq._filter_check_cidr(operand jsonb, at text)
returns void
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Write {"cidr": "10.0.0.0/24"} or {"cidr": "2001:db8::/32"}; '
        'name a single address as a value.';
    v_network inet;
begin
    if jsonb_typeof(operand) is distinct from 'string' or (operand #>> '{}')
            !~ '^([0-9]{1,3}([.][0-9]{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:]*)/[0-9]{1,3}$' then
        perform pgq._filter_error('cidr takes a network', at, v_hint);
    end if;
    begin
        v_network := (operand #>> '{}')::inet;
    exception when data_exception then
        perform pgq._filter_error('cidr takes a network', at, v_hint);
    end;
    if masklen(v_network) >= (case family(v_network) when 4 then 32 else 128 end) then
        perform pgq._filter_error('cidr takes more than one address', at, v_hint);
    end if;
end
$$;
comment on function pgq._filter_check_cidr(jsonb, text) is
    'Validates the operand of cidr; QU004 if it is not a network.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/28_filter_patterns.sql

-- Text tests of one field as one tree that is true if any of them is: PostgreSQL caches 32 compiled
-- regular expressions, so a list of patterns must not become as many. nodes: what they count as.
--
-- A regular expression with many suffixes costs more the longer the text is. If reading the text
-- backwards counts less, a binary search finds the suffix: pgq._test_suffixes.
create or replace function pgq._filter_patterns(tests jsonb[], out tree jsonb, out nodes int)
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_leaf jsonb := tests[1] - 'value';
    v_suffixes jsonb;
    v_other jsonb[];
    v_longest int;
    v_nodes int;
    v_backwards int;
begin
    nodes := 0;
    tree := 'false';
    if tests = '{}' then
        return;
    end if;
    -- Measured: a network costs 1.2 us, of IPv6 3.5 us.
    select (sum(case
            when t.test ->> 'op' <> 'cidr' then 11
            when t.test ->> 'value' ~ ':' then 11011
            else 3761 end) / 500)::int,
        jsonb_agg(s.suffix) filter (where s.suffix is not null), max(length(s.suffix)),
        array_agg(t.test) filter (where s.suffix is null)
    into nodes, v_suffixes, v_longest, v_other
    from unnest(tests) as t (test),
        pgq._filter_suffix(t.test ->> 'op', t.test ->> 'value') as s (suffix);
    v_nodes := pgq._filter_regex_nodes(tests, false);
    -- Measured: 7 us, and 5 us for each 1,000 characters that are read backwards.
    v_backwards := 50 + v_longest / 40
        + pgq._filter_regex_nodes(coalesce(v_other, '{}'), false);
    if v_backwards < v_nodes then
        v_nodes := v_backwards;
        tree := v_leaf || jsonb_build_object('op', 'suffixes', 'value', v_suffixes);
    else
        v_other := tests;
    end if;
    nodes := nodes + v_nodes + pgq._filter_regex_nodes(tests, true);
    if v_other is not null then
        tree := pgq._filter_combine('or', array[tree, case cardinality(v_other)
            when 1 then v_other[1]
            else v_leaf || jsonb_build_object('op', 'patterns', 'value',
                (select jsonb_agg(jsonb_build_array(t.test -> 'op', t.test -> 'value'))
                from unnest(v_other) as t (test))) end]);
    end if;
end
$$;
comment on function pgq._filter_patterns(jsonb[]) is
    'Joins text tests of one field by or, and counts them.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/28_filter_regex_nodes.sql

-- How many nodes the regular expressions of one list count as: those that ignore case, or the
-- others. Measured: a node is about 0.16 us, one equality. A regular expression of s characters
-- takes 1 us + s * 0.0065 us, more if it is long, and 0.06 us + s * 0.0006 us for each new state.
-- An anchored pattern makes at most as many states as it has characters.
--
-- A pattern searches if it can begin anywhere, or continue anywhere after its plain beginning.
-- PostgreSQL follows all such patterns at once, except those whose beginnings exclude each other.
-- So only patterns whose beginnings one text can have are added up, and the largest sum counts.
create or replace function pgq._filter_regex_nodes(tests jsonb[], ignoring boolean)
returns int
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_heads text[];
    v_lengths int[];
    v_weights int[];
    v_longest int;
    v_size int;  -- the characters of the largest regular expression: see pgq._filter_any_text
    v_plain int;
    v_starts int[];
    v_stack int[] := '{}';
    v_sum int := 0;
    v_most int := 0;
begin
    select array_agg(r.head), array_agg(r.length), sum(r.length)::int, max(r.length),
        array_agg(case when r.steps = 0 then 0
            else 3 + 3 * r.steps + 16 * r.ones + r.length / 2 end),
        (count(*) filter (where r.head = ''))::int
    into v_heads, v_lengths, v_size, v_longest, v_weights, v_plain
    from (select * from pgq._filter_regexes(tests, ignoring) as t
        order by convert_to(t.head, 'UTF8')) as r;
    if v_heads is null then
        return 0;
    elsif cardinality(v_heads) - v_plain > 64 then
        v_starts := pgq._filter_head_groups(v_heads[v_plain + 1:]);
        v_size := coalesce((select sum(l)::int from unnest(v_lengths[:v_plain]) as l), 0);
        for i in 1 .. cardinality(v_starts) loop
            v_size := greatest(v_size, (select sum(l)::int from unnest(v_lengths[
                v_plain + v_starts[i]
                :v_plain + coalesce(v_starts[i + 1] - 1, cardinality(v_heads))]) as l));
        end loop;
    end if;
    for i in 1 .. cardinality(v_heads) loop
        continue when v_weights[i] = 0;
        while v_stack <> '{}' and not starts_with(v_heads[i], v_heads[v_stack[1]]) loop
            v_sum := v_sum - v_weights[v_stack[1]];
            v_stack := v_stack[2:];
        end loop;
        v_stack := i || v_stack;
        v_sum := v_sum + v_weights[i];
        v_most := greatest(v_most, v_sum);
        exit when v_most > 1000;  -- too many in any case
    end loop;
    v_size := least(v_size, 10000);  -- too many in any case, and the square is an int
    return 6 + v_size / 25 + v_size * v_size / 80000 + v_longest * (108 + v_size) / 280
        + case when v_most > 0 then 7 + v_most else 0 end;
end
$$;
comment on function pgq._filter_regex_nodes(jsonb[], boolean) is
    'How many nodes the regular expressions of a list count as.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/28_filter_regexes.sql

-- The tests of a list that need a regular expression: those that ignore case, or the others.
-- Returns their length, the plain text that they begin with, at how many places they search, and
-- how many of their characters are classes.
create or replace function pgq._filter_regexes(
    tests jsonb[], ignoring boolean, out length int, out head text, out steps int, out ones int)
returns setof record
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select case
                when t.op in ('regex', 'iregex') then pgq._filter_copies(t.value)::int
                when t.op = 'cidr' then 0  -- counted by itself
                else length(t.value) end,
            pgq._filter_head(t.op, t.value),
            case
                when t.op in ('suffix', 'substr') then 1
                when t.op in ('regex', 'iregex') and pgq._filter_is_anchored(t.value) then 0
                when t.op in ('regex', 'iregex') then 1 + regexp_count(t.value, '[?*+{|]')
                when t.op = 'wildcard' then length(regexp_replace(
                    t.value, E'\\\\.|[^*]|\\*+$', '', 'g'))
                when t.op in ('like', 'ilike') then length(regexp_replace(
                    t.value, E'\\\\.|[^%]|%+$', '', 'g'))
                when t.op = 'topic' then regexp_count(t.value, '#[^#]')
                else 0 end,
            case
                when t.op in ('like', 'ilike') then length(regexp_replace(
                    t.value, E'\\\\.|[^_]', '', 'g'))
                when t.op in ('regex', 'iregex') then pgq._filter_wide(t.value)
                else 0 end
        from (select u.test ->> 'op', u.test ->> 'value' from unnest(tests) as u (test))
            as t (op, value)
        where (t.op in ('ieq', 'ilike', 'iregex')) = ignoring
            and pgq._filter_is_regex(t.op, t.value);
end
$$;
comment on function pgq._filter_regexes(jsonb[], boolean) is
    'The tests of a list that need a regular expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/29_filter_numeric.sql

-- The operand of numeric -> tree: one comparison, or a range whose lower bound comes first.
create or replace function pgq._filter_numeric(operand jsonb, scope text, path text[], at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'Write ["=", 5], [">", 0] or [">", 0, "<=", 150].';
    v_names constant jsonb := '{">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}';
    v_low jsonb := operand -> 1;
    v_high jsonb := operand -> 3;
begin
    if jsonb_typeof(operand) <> 'array' or jsonb_array_length(operand) not in (2, 4)
            or jsonb_typeof(v_low) <> 'number' or jsonb_typeof(v_high) <> 'number' then
        perform pgq._filter_error('numeric takes comparisons with numbers', at, v_hint);
    elsif exists (select from unnest(array[v_low, v_high]) as n (number)
            where n.number::numeric <> 0
                and abs(n.number::numeric) not between 4.9e-324 and 1.7976931348623157e308) then
        perform pgq._filter_error('the number is out of range', at,
            'Compare with a number that fits into a double.');
    elsif v_high is null and operand ->> 0 = '=' then
        return pgq._filter_membership(scope, path, jsonb_build_array(v_low), at);
    elsif not v_names ? coalesce(operand ->> 0, '') or v_high is not null
            and (operand ->> 0 not in ('>', '>=') or operand ->> 2 not in ('<', '<=')) then
        perform pgq._filter_error('numeric takes one comparison for each end', at,
            v_hint || ' The lower bound comes first.');
    elsif v_high::numeric <= v_low::numeric then
        perform pgq._filter_error('the range is empty', at,
            'The lower bound must be less than the upper one.');
    end if;
    return pgq._filter_range(scope, path, jsonb_strip_nulls(jsonb_build_object(
        v_names ->> (operand ->> 0), v_low,
        coalesce(v_names ->> (operand ->> 2), 'none'), v_high)), at);
end
$$;
comment on function pgq._filter_numeric(jsonb, text, text[], text) is
    'Validates the operand of numeric and gives its tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/30_filter_parse_name.sql

-- A field name as {scope, key, key, ...}; inside a block, names are relative to the block.
create or replace function pgq._filter_parse_name(
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
        if v_key = '' or v_key like '$%' then
            perform pgq._filter_error('invalid key ' || left(to_json(v_key)::text, 64), at,
                'Dots separate keys; a key is not empty and does not begin with $. Write any other '
                'as ' || case when scope is null then '{"$path": ["payload", "a.b"], "$eq": ...}.'
                    else '{"$path": ["a.b"], "$eq": ...}: in a block $path is relative to it.' end);
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/31_filter_parse_path.sql

-- The operand of $path as {scope, key, key, ...}; inside a block, it is relative to the block.
create or replace function pgq._filter_parse_path(
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/32_filter_range.sql

-- The field lies within bounds, for example {"gt": 0, "lte": 150}: all of one type.
create or replace function pgq._filter_range(scope text, path text[], bounds jsonb, at text)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/33_filter_parse_text.sql

-- One text operator as SNS and EventBridge spell it -> leaf.
create or replace function pgq._filter_parse_text(
    operator text, operand jsonb, scope text, path text[], at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text := operator;
    v_operand jsonb := operand;
begin
    if operator in ('prefix', 'suffix') and jsonb_typeof(operand) = 'object' then
        if operand - 'equals-ignore-case' <> '{}'
                or jsonb_typeof(operand -> 'equals-ignore-case') is distinct from 'string' then
            perform pgq._filter_error('the operand must be a string', at,
                format('Write {"%s": "a"} or {"%1$s": {"equals-ignore-case": "a"}}.', operator));
        end if;
        v_name := 'ilike';
        v_operand := to_jsonb(
            case operator when 'suffix' then '%' else '' end
            || regexp_replace(operand ->> 'equals-ignore-case', E'([\\\\%_])', E'\\\\\\1', 'g')
            || case operator when 'prefix' then '%' else '' end);
    elsif operator = 'equals-ignore-case' then
        v_name := 'ieq';
    elsif operator = 'cidr' then
        perform pgq._filter_check_cidr(operand, at);
        return pgq._filter_node('cidr', scope, path, operand);
    end if;
    if jsonb_typeof(v_operand) is distinct from 'string' then
        perform pgq._filter_error('the operand must be a string', at,
            format('Write {"%s": "a"}, with one text.', operator));
    elsif operator = 'wildcard' and v_operand #>> '{}' ~ E'^(?:[^\\\\]|\\\\.)*\\*\\*' then
        perform pgq._filter_error('a wildcard follows a wildcard', at,
            E'Write one star for any text, \\* for a star itself.');
    end if;
    perform pgq._filter_check_pattern(v_name, v_operand, at);
    return pgq._filter_node(v_name, scope, path, v_operand);
end
$$;
comment on function pgq._filter_parse_text(text, jsonb, text, text[], text) is
    'Validates a text operator of SNS or EventBridge and gives its leaf.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/34_filter_anything_but.sql

-- The operand of anything-but -> the tree of excluded values, and how many nodes it counts as.
create or replace function pgq._filter_anything_but(
    operand jsonb, scope text, path text[], at text, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text;
    v_operands jsonb := operand;
    v_leaves jsonb[] := '{}';
    v_part jsonb;
begin
    nodes := 0;
    if jsonb_typeof(operand) = 'object' then
        select o.key, o.value into v_name, v_operands from jsonb_each(operand) as o;
        if (select count(*) from jsonb_object_keys(operand)) <> 1
                or v_name not in ('prefix', 'suffix', 'equals-ignore-case', 'wildcard') then
            perform pgq._filter_error('anything-but takes values or one text operator', at,
                'Write {"anything-but": ["a", "b"]} or {"anything-but": {"prefix": "a"}}; '
                'it takes prefix, suffix, equals-ignore-case and wildcard.');
        end if;
    end if;
    if jsonb_typeof(v_operands) <> 'array' then
        v_operands := jsonb_build_array(v_operands);
    end if;
    perform pgq._filter_check_list(v_operands, false, at);
    if v_name is null then
        if (select count(distinct t.type) > 1 or bool_or(t.type not in ('string', 'number'))
                from jsonb_array_elements(v_operands) as o (operand), jsonb_typeof(o.operand)
                    as t (type)) then
            perform pgq._filter_error('anything-but takes strings or numbers', at,
                'Write {"anything-but": ["a", "b"]} or {"anything-but": [1, 2]}; '
                '{"$nin": [...]} outside a list takes null, true, false and both.');
        end if;
        tree := pgq._filter_membership(scope, path, v_operands, at);
        nodes := pgq._filter_value_nodes(v_operands) - 1;
        return;
    end if;
    if jsonb_array_length(v_operands) > 8 and not jsonb_path_exists(
            v_operands, 'strict $[*] ? (@.type() != "string" || @ == "")') then
        v_leaves := pgq._filter_parse_texts((
            select jsonb_agg(jsonb_build_object(v_name, o.operand))
            from jsonb_array_elements(v_operands) as o (operand)), scope, path);
    end if;
    if cardinality(v_leaves) < jsonb_array_length(v_operands) then
        v_leaves := '{}';
    else
        v_operands := '[]';
    end if;
    for v_part in select jsonb_array_elements(v_operands) loop
        if jsonb_typeof(v_part) <> 'string' then
            perform pgq._filter_error('the operand must be a string', at || '.' || v_name,
                format('Write {"anything-but": {"%s": "a"}} or {"%1$s": ["a", "b"]}.', v_name));
        elsif v_part = '""' and v_name in ('prefix', 'suffix') then
            perform pgq._filter_error('the ' || v_name || ' is empty', at,
                'Every text has it, so that no text could match.');
        end if;
        v_leaves := v_leaves || pgq._filter_parse_text(v_name, v_part, scope, path,
            at || '.' || v_name);
    end loop;
    select p.tree, p.nodes into tree, nodes from pgq._filter_patterns(v_leaves) as p;
end
$$;
comment on function pgq._filter_anything_but(jsonb, text, text[], text) is
    'Validates the operand of anything-but and gives the tree of what it excludes.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/35_filter_parse_alternative.sql

-- One operator object of a list, as SNS and EventBridge spell it -> tree, and how many nodes it
-- counts as, without patterns, which are counted together.
create or replace function pgq._filter_parse_alternative(
    alternative jsonb, scope text, path text[], at text, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'A list takes values, and prefix, suffix, equals-ignore-case, '
        'wildcard, exists, numeric, cidr and anything-but, one per object.';
    v_name text;
    v_operand jsonb;
    v_at text;
begin
    if jsonb_typeof(alternative) <> 'object' then
        perform pgq._filter_error('a list cannot hold a list', at,
            'Compare with a whole array by {"$eq": [...]}.');
    elsif (select count(*) from jsonb_object_keys(alternative)) <> 1 then
        perform pgq._filter_error('an object in a list must hold one operator', at, v_hint);
    end if;
    select o.key, o.value into v_name, v_operand from jsonb_each(alternative) as o;
    v_at := at || '.' || left(v_name, 64);
    nodes := case when v_name in ('exactly', 'exists') then 1 else 3 end;
    if scope = 'msg' and path[1] in ('published_at', 'expires_at')
            and v_name not in ('exists', 'anything-but') then
        perform pgq._filter_error('timestamps cannot be tested with ' || left(v_name, 64), v_at,
            'Write {"$gt": "2030-01-31"}, {"$lt": {"$now": "-1 hour"}} or a timestamp.');
    end if;
    case v_name
        when 'prefix', 'suffix', 'equals-ignore-case', 'wildcard', 'cidr' then
            nodes := 0;
            tree := pgq._filter_parse_text(v_name, v_operand, scope, path, v_at);
        when 'exactly' then
            if jsonb_typeof(v_operand) <> 'string' then
                perform pgq._filter_error('the operand must be a string', v_at,
                    'Write {"exactly": "a"}, or "a" alone.');
            end if;
            tree := pgq._filter_membership(scope, path, jsonb_build_array(v_operand), v_at);
        when 'exists' then
            if jsonb_typeof(v_operand) <> 'boolean' then
                perform pgq._filter_error('exists takes true or false', v_at,
                    'Write {"exists": true} or {"exists": false}.');
            end if;
            tree := case scope when 'item' then 'true'::jsonb
                else pgq._filter_node(case scope when 'msg' then 'some' else 'exists' end,
                    scope, path) end;
            if not v_operand::boolean then
                tree := pgq._filter_negate(tree);
            end if;
        when 'numeric' then
            tree := pgq._filter_numeric(v_operand, scope, path, v_at);
        when 'anything-but' then
            -- a header is tested like a field of the payload: null is not a missing field
            select 3 + b.nodes, case scope
                when 'item' then pgq._filter_negate(b.tree)
                when 'msg' then pgq._filter_unless(scope, path, b.tree)
                else pgq._filter_node('any', scope, path, pgq._filter_negate(b.tree)) end
            into nodes, tree
            from pgq._filter_anything_but(v_operand,
                case scope when 'headers' then 'item' else scope end,
                case scope when 'headers' then '{}' else path end, v_at) as b;
        else
            perform pgq._filter_error('unknown operator ' || left(v_name, 64) || ' in a list', v_at,
                v_hint);
    end case;
end
$$;
comment on function pgq._filter_parse_alternative(jsonb, text, text[], text) is
    'Validates an SNS or EventBridge operator and gives its tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/36_filter_parse_list.sql

-- A list of alternatives, as SNS and EventBridge define it. Tests of a header or of msg become a
-- tree, tests of the payload a policy, because pgq._filter_policy combines the lists of a filter.
create or replace function pgq._filter_parse_list(
    list jsonb, scope text, path text[], at text,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_whole constant boolean := scope in ('headers', 'msg');
    v_scope constant text := case when v_whole then scope else 'item' end;
    v_path constant text[] := case when v_whole then path else '{}' end;
    v_missing boolean := false;
    v_done boolean;
    v_parts jsonb[] := '{}';
    v_texts jsonb[] := '{}';
    v_scalars jsonb;
    v_value jsonb;
    v_index int := 0;
    v_part record;
begin
    perform pgq._filter_check_list(list, false, at);
    nodes := case scope when 'headers' then 0 else 2 end;
    v_scalars := jsonb_path_query_array(list,
        'strict $[*] ? (@.type() != "array" && @.type() != "object")');
    if v_scalars <> '[]' then
        nodes := nodes + pgq._filter_value_nodes(v_scalars);
        v_parts := v_parts || pgq._filter_membership(v_scope, v_path, v_scalars, at);
    end if;
    if jsonb_array_length(v_scalars) < jsonb_array_length(list) then
        if jsonb_array_length(list) > 8 and scope <> 'msg' then
            v_texts := pgq._filter_parse_texts(list, v_scope, v_path);
        end if;
        v_done := cardinality(v_texts) = jsonb_array_length(list) - jsonb_array_length(v_scalars);
        v_texts := case when v_done then v_texts else '{}' end;
        for v_value in select jsonb_array_elements(list) where not v_done loop
            if jsonb_typeof(v_value) in ('array', 'object') then
                select a.tree, a.nodes into v_part
                from pgq._filter_parse_alternative(v_value, v_scope, v_path,
                    format('%s[%s]', at, v_index)) as a;
                nodes := nodes + v_part.nodes;
                if v_part.nodes = 0 then
                    v_texts := v_texts || v_part.tree;
                elsif v_part.tree = 'false' then
                    v_missing := true;
                else
                    v_parts := v_parts || v_part.tree;
                end if;
            end if;
            v_index := v_index + 1;
        end loop;
        if v_texts <> '{}' then
            select p.tree, p.nodes into v_part from pgq._filter_patterns(v_texts) as p;
            v_parts := v_parts || v_part.tree;
            nodes := nodes + 1 + v_part.nodes;
        end if;
    end if;
    tree := pgq._filter_combine('or', v_parts);
    policy := 'true';
    if not v_whole then
        policy := pgq._filter_node('any', scope, path, tree);
        if jsonb_array_length(list) > 100 or pgq._filter_lists(tree) <> '{}' then
            -- written once for each spelling of the path, a long list would take long to compile;
            -- and a text that is compared with a list of suffixes is read for each spelling
            policy := policy || '{"plain": true}';
        end if;
        if v_missing then
            policy := pgq._filter_combine('or', case when v_parts = '{}' then '{}'
                else array[policy] end
                || pgq._filter_negate(pgq._filter_node('any', scope, path, 'true')));
        end if;
        tree := 'true';
    end if;
end
$$;
comment on function pgq._filter_parse_list(jsonb, text, text[], text) is
    'Validates a list of alternatives and gives its tree, or its policy.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/37_filter_parse_operator.sql

-- One $operator of one field -> tree, and how many nodes it counts as.
create or replace function pgq._filter_parse_operator(
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
    nodes := case when operator in ('$eq', '$in', '$exists', '$type') then 1 else 3 end;
    if v_time and operator not in ('$eq', '$ne', '$in', '$nin', '$gt', '$gte', '$lt', '$lte',
            '$between', '$exists', '$isNull') then
        perform pgq._filter_error('timestamps cannot be tested with ' || left(operator, 64), at,
            'Timestamps support $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $between, $exists and '
            '$isNull.');
    end if;
    case operator
        when '$eq', '$ne' then
            if v_type = 'object' and operand ? '$now' then
                tree := pgq._filter_range(scope, path,
                    jsonb_build_object('gte', operand, 'lte', operand), at);
            elsif v_type in ('array', 'object') and not v_time then
                nodes := 4 * greatest(pgq._filter_check_structure(operand, at), 1) - 1;
                tree := pgq._filter_node('eq', scope, path, operand);
            else
                tree := pgq._filter_membership(scope, path, jsonb_build_array(operand), at);
            end if;
            if operator = '$ne' then
                tree := pgq._filter_unless(scope, path, tree);
            end if;
        when '$in', '$nin' then
            perform pgq._filter_check_list(operand, true, at);
            nodes := nodes + pgq._filter_value_nodes(operand) - 1;
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
            nodes := 1 + (pgq._filter_patterns(array[tree])).nodes;
        when '$nlike' then
            perform pgq._filter_check_pattern('like', operand, at);
            tree := pgq._filter_node('like', scope, path, operand);
            nodes := 3 + (pgq._filter_patterns(array[tree])).nodes;
            tree := pgq._filter_unless(scope, path, tree);
        when '$regex' then
            if options is not null and options not in ('""', '"i"') then
                perform pgq._filter_error('unknown $options', at, 'The only option is "i".');
            end if;
            v_name := case when options = '"i"' then 'iregex' else 'regex' end;
            perform pgq._filter_check_pattern(v_name, operand, at);
            tree := pgq._filter_node(v_name, scope, path, operand);
            nodes := 1 + (pgq._filter_patterns(array[tree])).nodes;
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
            nodes := 3 * pgq._filter_check_structure(operand, at);
            tree := pgq._filter_node('all', scope, path, operand);
        when '$size' then
            if v_type <> 'number' or operand::numeric < 0
                    or operand::numeric <> trunc(operand::numeric) then
                perform pgq._filter_error('$size takes a whole number', at,
                    'Write {"$size": 2} for an array of two elements.');
            end if;
            tree := pgq._filter_node('size', scope, path, operand);
        when '$contains' then
            nodes := 4 * greatest(pgq._filter_check_structure(operand, at), 1) + 1;
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
            select pgq._filter_combine('and', array[t.tree, pgq._filter_policy(t.policy, 'item')]),
                t.nodes + 5
            into tree, nodes
            from pgq._filter_parse_test(operand, 'item', '{}', at, depth + 1) as t;
            tree := pgq._filter_node('elem', scope, path, tree);
        when '$options' then
            perform pgq._filter_error('$options belongs to $regex', at,
                'Write {"$regex": "^order", "$options": "i"}.');
        when '$now' then
            perform pgq._filter_error('$now is an operand', at,
                'Write {"msg.published_at": {"$gt": {"$now": "-1 hour"}}}.');
        when '$and', '$or', '$nor', '$not', '$const' then
            perform pgq._filter_error(operator || ' is no operator of a field', at,
                'Put it outside the field: {"$not": {"key": {"$gt": 5}}}.');
        else
            perform pgq._filter_error('unknown operator ' || left(operator, 64), at,
                'The operators are $eq $ne $in $nin $gt $gte $lt $lte $between $like $nlike $ilike '
                '$prefix $suffix $substr $ieq $wildcard $regex $topic $exists $isNull $type $all '
                '$size $elemMatch $contains $mod.');
    end case;
    if scope = 'msg' then
        nodes := nodes + 2;
    end if;
end
$$;
comment on function pgq._filter_parse_operator(text, jsonb, jsonb, text, text[], text, int) is
    'Validates one operator of a filter and gives its tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/38_filter_parse_test.sql

-- The test of one field -> tree: a value, a list of alternatives, operators, or fields below it.
-- policy is the part that is combined with other lists: pgq._filter_policy makes it a tree.
create or replace function pgq._filter_parse_test(
    test jsonb, scope text, path text[], at text, depth int,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_logic constant text[] := '{$and,$or,$nor,$not,$const,$path}';
    v_parts jsonb[] := '{}';
    v_key text;
    v_value jsonb;
    v_part record;
begin
    nodes := 1;
    policy := 'true';
    if depth > 8 then
        perform pgq._filter_error('the filter is nested too deeply', at,
            'A filter is nested at most 8 levels deep.');
    end if;
    if jsonb_typeof(test) <> 'object' then
        -- a value alone is a list of one
        select l.tree, l.policy, l.nodes into tree, policy, nodes
        from pgq._filter_parse_list(
            case jsonb_typeof(test) when 'array' then test else jsonb_build_array(test) end,
            scope, path, at) as l;
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
    elsif path <> '{}' and exists (select from jsonb_each(test) as o
            where o.key in ('prefix', 'suffix', 'equals-ignore-case', 'wildcard', 'cidr', 'exists',
                    'numeric', 'anything-but')
                and jsonb_typeof(o.value) not in ('array', 'object')) then
        perform pgq._filter_error('an operator of SNS must be in a list', at,
            'Write {"key": [{"prefix": "a"}]}; a field of this name is "key.prefix".');
    else
        select b.tree, b.policy, b.nodes into tree, policy, nodes
        from pgq._filter_parse_block(test, scope, path, at,
            depth + case when path = '{}' then 0 else 1 end) as b;
    end if;
end
$$;
comment on function pgq._filter_parse_test(jsonb, text, text[], text, int) is
    'Validates the test of one field and gives its tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/39_filter_parse_block.sql

-- A filter, a scope block or the fields below a field -> tree; scope is NULL if names contain it.
-- policy holds the tests of its lists on the payload: the caller joins it with other lists, or
-- makes it a tree by pgq._filter_policy.
create or replace function pgq._filter_parse_block(
    block jsonb, scope text, prefix text[], at text, depth int,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_policies jsonb[] := '{}';
    v_key text;
    v_value jsonb;
    v_at text;
    v_path text[];
    v_part record;
begin
    tree := 'true';
    policy := 'true';
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
            perform pgq._filter_error('$path can be combined with operators only', at,
                'Write {"$path": ["payload", "a.b"], "$eq": 1}; join several with $and.');
        end if;
        select t.tree, t.policy, t.nodes into tree, policy, nodes
        from pgq._filter_parse_test(block - '$path', v_path[1], v_path[2:], at, depth) as t;
        return;
    end if;
    for v_key, v_value in select o.key, o.value from jsonb_each(block) as o loop
        v_at := at || '.' || left(v_key, 64);
        if v_key in ('$and', '$or', '$nor', '$not') then
            select l.tree, l.policy, l.nodes into v_part
            from pgq._filter_parse_logic(v_key, v_value, scope, prefix, v_at, depth + 1) as l;
        elsif v_key = '$const' then
            if jsonb_typeof(v_value) <> 'boolean' then
                perform pgq._filter_error('$const takes true or false', v_at,
                    'Write {"$const": true} or {"$const": false}.');
            end if;
            select v_value as tree, 'true'::jsonb as policy, 1 as nodes into v_part;
        elsif v_key like '$%' then
            perform pgq._filter_error(
                'operator ' || left(v_key, 64) || ' does not belong to a field', v_at,
                'Write {"key": {"$gt": 5}}; to negate it, {"$not": {"key": {"$gt": 5}}}. '
                'To combine fields use $and, $or, $nor, $not or $const.');
        elsif scope is null and v_key in ('headers', 'payload', 'msg') then
            if jsonb_typeof(v_value) <> 'object' then
                perform pgq._filter_error(v_key || ' must hold fields', v_at, format(
                    'Write {"%s": {"key": "value"}}; a header of this name is "headers.%s".',
                    v_key, v_key));
            end if;
            select b.tree, b.policy, b.nodes into v_part
            from pgq._filter_parse_block(v_value, v_key, '{}', v_at, depth + 1) as b;
        else
            v_path := pgq._filter_parse_name(v_key, scope, prefix, v_at);
            select t.tree, t.policy, t.nodes into v_part
            from pgq._filter_parse_test(v_value, v_path[1], v_path[2:], v_at, depth) as t;
        end if;
        v_parts := v_parts || v_part.tree;
        v_policies := v_policies || v_part.policy;
        nodes := nodes + v_part.nodes;
    end loop;
    tree := pgq._filter_combine('and', v_parts);
    policy := pgq._filter_combine('and', v_policies);
end
$$;
comment on function pgq._filter_parse_block(jsonb, text, text[], text, int) is
    'Validates a block of fields and logic and gives its tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/40_filter_scope.sql

-- Which part of a message a tree reads: headers, payload, content for both, or message if the
-- message's own fields are needed too, which cost the most to prepare.
create or replace function pgq._filter_scope(tree jsonb)
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
    'The part of a message that a syntax tree reads: headers, payload, content, message.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/41_filter_join.sql

-- Conditions joined by && or ||, in groups, so that a long list does not become a deep tree.
create or replace function pgq._filter_join(operator text, conditions text[])
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/42_filter_equal.sql

-- The item equals this JSON value. Each type is checked before its parts, because lax mode would
-- otherwise unwrap arrays; .type() and .size() never do.
create or replace function pgq._filter_equal(item text, value jsonb)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/43_filter_contain.sql

-- The item contains this JSON value as @> means it, below the top.
create or replace function pgq._filter_contain(item text, value jsonb)
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
        -- a filter on an array tests its elements, and no deeper
        when 'array' then pgq._filter_join('&&', v_condition
            || array(select format('exists(%s ? (%s))', item, pgq._filter_contain('@', e.value))
                from jsonb_array_elements(value) with ordinality as e (value, position)
                order by e.position))
        else pgq._filter_equal(item, value) end;
end
$$;
comment on function pgq._filter_contain(text, jsonb) is
    'The jsonpath condition of an item containing a JSON value.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/44_filter_search.sql

-- The current item (@) is one of these literals, or starts with one of them: a binary search. The
-- literals are sorted as jsonpath sorts. Of literals to start with, none may start with another.
create or replace function pgq._filter_search(literals text[], operator text default '==')
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_middle int := cardinality(literals) / 2;
begin
    if cardinality(literals) <= 4 then
        return format('(@ %s %s)', operator,
            array_to_string(literals, format(' || @ %s ', operator)));
    end if;
    return format('((@ < %s && %s) || (@ >= %s && %s))',
        literals[v_middle + 1], pgq._filter_search(literals[:v_middle], operator),
        literals[v_middle + 1], pgq._filter_search(literals[v_middle + 1:], operator));
end
$$;
comment on function pgq._filter_search(text[], text) is
    'The jsonpath condition of an item being one of, or starting with one of, many literals.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/45_filter_among.sql

-- The current item (@) is one of these scalars.
create or replace function pgq._filter_among("values" jsonb)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/45_filter_prefixes.sql

-- The current item (@), a string, starts with one of these texts: a binary search.
create or replace function pgq._filter_prefixes(texts text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept text[] := '{}';
    v_last text;
    v_text text;
begin
    for v_text in
        select t.text from unnest(texts) as t (text) order by convert_to(t.text, 'UTF8')
    loop
        -- a prefix makes longer prefixes that start with it superfluous
        if starts_with(v_text, v_last) is not true then
            v_last := v_text;
            v_kept := v_kept || to_json(v_text)::text;
        end if;
    end loop;
    return pgq._filter_search(v_kept, 'starts with');
end
$$;
comment on function pgq._filter_prefixes(text[]) is
    'The jsonpath condition of a string starting with one of these texts.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/46_filter_text.sql

-- A text predicate without the item in front of it: the cheapest equivalent form.
create or replace function pgq._filter_text(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._filter_is_regex(operator, pattern) then
        return case
            when operator in ('prefix', 'substr') then ' starts with ' || to_json(pattern)::text
            when operator = 'like' and right(pattern, 1) = '%'
                then ' starts with ' || to_json(rtrim(pattern, '%'))::text
            when operator = 'wildcard' and right(pattern, 1) = '*'
                then ' starts with ' || to_json(rtrim(pattern, '*'))::text
            else ' == ' || to_json(pattern)::text end;
    elsif operator = 'substr' then
        return format(' like_regex %s flag "q"', to_json(pattern));
    end if;
    -- flag s: a dot matches a newline too, as everywhere else in PostgreSQL
    return format(' like_regex %s flag "%s"', to_json(pgq._filter_pattern(operator, pattern)),
        case when operator in ('ieq', 'ilike', 'iregex') then 'is' else 's' end);
end
$$;
comment on function pgq._filter_text(text, text) is
    'The jsonpath predicate of a text operator, without the item in front.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/47_filter_lists.sql

-- The name of a list of suffixes in a compiled filter.
create or replace function pgq._filter_list(suffixes jsonb) returns text
language sql immutable strict parallel safe
return '"' || hashtextextended(suffixes::text, 0)::text || '"';
comment on function pgq._filter_list(jsonb) is 'The name of a list of suffixes, quoted.';

-- The lists of suffixes of a tree that are searched backwards.
create or replace function pgq._filter_lists(tree jsonb) returns jsonb[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(select distinct l.suffixes from jsonb_path_query(tree,
        'strict $.** ? (@."op" == "suffixes")."value"', '{}', true) as l (suffixes));
end
$$;
comment on function pgq._filter_lists(jsonb) is
    'The lists of suffixes of a tree that are searched backwards.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/47_filter_literal.sql

-- A bound of an order test: a literal, or seconds from now.
create or replace function pgq._filter_literal(value jsonb)
returns text
language sql immutable strict parallel safe
return case pg_catalog.jsonb_typeof(value)
    when 'object' then '$"now" + (' || (value operator(pg_catalog.->>) 'now') || ')'
    else value::text end;
comment on function pgq._filter_literal(jsonb) is 'The jsonpath literal of a bound.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/48_filter_item.sql

-- The condition of a leaf on one item: true or false, never unknown. The type is checked first, or
-- lax mode would unwrap arrays.
create or replace function pgq._filter_item(operator text, value jsonb, item text)
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
            return item || '.type() != "null"';
        when 'type' then
            return format('%s.type() == %s', item, value);
        when 'eq' then
            return pgq._filter_equal(item, value);
        when 'in' then
            return format('(%1$s.type() != "array" && exists(%1$s ? (%2$s)))', item,
                pgq._filter_among(value));
        when 'all' then
            return pgq._filter_join('&&', format('%s.type() == "array"', item)
                || array(select format('exists(%s ? (%s))', item, pgq._filter_equal('@', e.value))
                    from jsonb_array_elements(value) as e (value)));
        when 'size' then
            return format('(%1$s.type() == "array" && %1$s.size() == %2$s)', item, value);
        when 'elem' then
            return format('(%1$s.type() == "array" && exists(%1$s ? (%2$s)))', item,
                pgq._filter_condition(value, 'item'));
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
        when 'suffixes' then
            -- pgq._test_suffixes has found the texts that pass
            v_condition := format('%s == $"found".%s[*]', item, pgq._filter_list(value));
        when 'patterns' then
            -- the item is @ itself: several patterns come from a list, which tests one item
            v_condition := pgq._filter_any_text(value);
        else
            v_condition := item || pgq._filter_text(operator, value #>> '{}');
    end case;
    return format('(%s.type() == "%s" && %s)', item, v_type, v_condition);
end
$$;
comment on function pgq._filter_item(text, jsonb, text) is
    'The jsonpath condition of one test on one item.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/49_filter_leaf.sql

-- The condition of a leaf: which items its path selects, and how they are tested.
-- root is the part of the message that $ stands for, or item for @.
create or replace function pgq._filter_leaf(leaf jsonb, root text)
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
    v_parent text;
    v_key text;
begin
    if v_operator in ('any', 'each') then
        return pgq._filter_any(leaf, v_path);
    end if;
    for v_key in select jsonb_array_elements_text(leaf -> 'path') loop
        v_parent := v_path;
        v_path := v_path || '.' || to_json(v_key)::text;
    end loop;
    if v_parent is null then
        return pgq._filter_item(v_operator, v_value, v_path);
    end if;
    -- one element is enough; a bare comparison unwraps an array, one level deep, but may be
    -- unknown: inside an item the complement of unknown stays unknown
    case
        when root <> 'item' and v_operator = 'eq'
                and jsonb_typeof(v_value) not in ('array', 'object') then
            return format('%s == %s', v_path, v_value);
        when root <> 'item' and v_operator = 'in' and jsonb_array_length(v_value) <= 3 then
            return '(' || (select string_agg(format('%s == %s', v_path, v.value), ' || ')
                from jsonb_array_elements(v_value) as v (value)) || ')';
        when root <> 'item' and v_operator in ('like', 'ilike', 'prefix', 'suffix', 'substr',
                'ieq', 'wildcard', 'topic', 'regex', 'iregex', 'cidr') then
            return v_path || pgq._filter_text(v_operator, v_value #>> '{}');
        when root <> 'item' and v_operator = 'range'
                and (select count(*) from jsonb_object_keys(v_value)) = 1 then
            return v_path || (select case b.key when 'gt' then ' > ' when 'gte' then ' >= '
                when 'lt' then ' < ' else ' <= ' end || pgq._filter_literal(b.value)
                from jsonb_each(v_value) as b);
        when v_operator in ('exists', 'some', 'type') then
            return pgq._filter_item(v_operator, v_value, v_path);
        when v_operator in ('all', 'size', 'elem') or (v_operator in ('eq', 'contains')
                and jsonb_typeof(v_value) = 'array') then
            return format('exists(%s ? (@.type() == "object" && %s))', v_parent, pgq._filter_item(
                v_operator, v_value, '@.' || to_json(v_key)::text));
        when v_operator = 'in' then
            return format('exists(%s ? (%s))', v_path, pgq._filter_among(v_value));
        when v_operator = 'contains' then
            return format('exists(%s ? (%s))', v_path, pgq._filter_contain('@', v_value));
        else
            return format('exists(%s ? (%s))', v_path,
                pgq._filter_item(v_operator, v_value, '@'));
    end case;
end
$$;
comment on function pgq._filter_leaf(jsonb, text) is
    'The jsonpath condition of a leaf of the syntax tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/50_filter_condition.sql

-- The condition of a tree. Unknown counts as false. and / or preserve that; before a complement,
-- exists(true ? (...)) turns unknown into false. Inside it @ is no longer the item, so conditions
-- on an item are written such that they are never unknown.
create or replace function pgq._filter_condition(tree jsonb, root text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        -- a constant that jsonpath accepts where it needs a condition
        when tree = 'true' then '(1 == 1)'
        when tree = 'false' then '(1 == 0)'
        when tree ->> 'op' = 'not' then format(
            case root when 'item' then '!(%s)' else '!(exists(true ? (%s)))' end,
            pgq._filter_condition(tree -> 'of', root))
        when tree ? 'of' then pgq._filter_join(
            case tree ->> 'op' when 'and' then '&&' else '||' end,
            array(select pgq._filter_condition(t.tree, root)
                from jsonb_array_elements(tree -> 'of') with ordinality as t (tree, position)
                order by t.position))
        else pgq._filter_leaf(tree, root) end;
end
$$;
comment on function pgq._filter_condition(jsonb, text) is
    'The jsonpath condition of a syntax tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/51_filter_any_text.sql

-- The current item (@), a string, passes any of these text tests: [[operator, pattern], ...].
-- Prefixes and whole texts use a binary search; the others become one regular expression, two if
-- some ignore case, and up to 16 more of each kind for many that begin with plain text.
create or replace function pgq._filter_any_text(tests jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_prefixes text[];
    v_text text;
    v_conditions text[];
begin
    select array_agg(case when r.heads is not null then pgq._filter_headed(r.heads, r.regexes,
            r.ignoring)
        else format('@ like_regex %s flag "%s"', to_json(array_to_string(r.regexes, '|')),
            case when r.ignoring then 'is' else 's' end) end)
    into v_conditions
    from (
        select p.ignoring,
            array_agg(p.head order by convert_to(p.head, 'UTF8')) filter (where p.headed),
            array_agg(p.regex order by convert_to(p.head, 'UTF8'))
        from (
            select t.test ->> 0 in ('ieq', 'ilike'), h.head,
                h.head <> '' and count(*) filter (where h.head <> '') over (
                    partition by t.test ->> 0 in ('ieq', 'ilike')) > 64,
                pgq._filter_pattern(t.test ->> 0, t.test ->> 1)
            from jsonb_array_elements(tests) as t (test),
                pgq._filter_head(t.test ->> 0, t.test ->> 1) as h (head)
            where pgq._filter_is_regex(t.test ->> 0, t.test ->> 1)
        ) as p (ignoring, head, headed, regex)
        group by p.ignoring, p.headed order by p.ignoring, p.headed
    ) as r (ignoring, heads, regexes);
    select array_agg(rtrim(t.test ->> 1, case t.test ->> 0 when 'wildcard' then '*'
        when 'like' then '%' else '' end))
    into v_prefixes
    from jsonb_array_elements(tests) as t (test)
    where not pgq._filter_is_regex(t.test ->> 0, t.test ->> 1)
        and (t.test ->> 0 = 'prefix' or right(t.test ->> 1, 1) in ('*', '%'));
    if v_prefixes is not null then
        v_conditions := pgq._filter_prefixes(v_prefixes) || v_conditions;
    end if;
    select pgq._filter_search(array_agg(l.literal order by convert_to(l.text, 'UTF8')))
    into v_text
    from (
        select distinct t.test ->> 1, (t.test -> 1)::text
        from jsonb_array_elements(tests) as t (test)
        where not pgq._filter_is_regex(t.test ->> 0, t.test ->> 1)
            and t.test ->> 0 <> 'prefix' and right(t.test ->> 1, 1) not in ('*', '%')
    ) as l (text, literal);
    return pgq._filter_join('||', array_remove(v_text || v_conditions, null));
end
$$;
comment on function pgq._filter_any_text(jsonb) is
    'The jsonpath condition of a string passing any of several text tests.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/52_filter_path.sql

-- Syntax tree -> jsonpath that is true or false on any message: run it with
-- jsonb_path_match(target, path, vars, silent => true). $ is the headers, the payload or the whole
-- document, as pgq._filter_scope says; for content it is the payload, and $headers a variable, so
-- that a large payload is not copied. With a root, $ is that part.
--
-- A path with lists of suffixes has two uses, for pgq._test_suffixes: if $list is the name of a
-- list, whether the text $text, which is reversed, ends with one of its suffixes; if $list is
-- empty, the filter itself. $found then has the texts of the message that passed the first use.
create or replace function pgq._filter_path(tree jsonb, root text default null)
returns jsonpath
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_path text;
    v_lists jsonb[];
begin
    if jsonb_typeof(tree) = 'boolean' then
        return tree::text::jsonpath;
    end if;
    v_path := 'exists(true ? ('
        || pgq._filter_condition(tree, coalesce(root, pgq._filter_scope(tree))) || '))';
    v_lists := pgq._filter_lists(tree);
    if v_lists <> '{}' then
        v_path := format('($"list" == "" && %s)', v_path) || (
            select string_agg(format(' || ($"list" == %s && exists($"text" ? (%s)))',
                pgq._filter_list(l.suffixes), pgq._filter_prefixes(array(
                    select reverse(s.suffix)
                    from jsonb_array_elements_text(l.suffixes) as s (suffix)))), '')
            from unnest(v_lists) as l (suffixes));
    end if;
    return v_path::jsonpath;
end
$$;
comment on function pgq._filter_path(jsonb, text) is
    'Compiles a syntax tree to a two-valued jsonpath.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/53_filter_operands.sql

-- The values that a tree compares with, in order; a list counts value by value.
create or replace function pgq._filter_operands(tree jsonb)
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
        when tree ->> 'op' in ('in', 'all', 'mod', 'suffixes') then tree -> 'value'
        when tree ->> 'op' = 'range' then jsonb_path_query_array(tree, 'strict $."value".*')
        when tree ->> 'op' = 'patterns' then jsonb_path_query_array(tree, 'strict $."value"[*][1]')
        when tree ->> 'op' in ('elem', 'each', 'any') then pgq._filter_operands(tree -> 'value')
        when tree ? 'value' then jsonb_build_array(tree -> 'value')
        else '[]' end;
end
$$;
comment on function pgq._filter_operands(jsonb) is
    'The operands of a syntax tree, as one list.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/54_filter_policy_group.sql

-- Conditions on fields below one key: if one of them needs a field, all of them test the same
-- element of an array. Conditions that only test for missing fields apply to all elements.
create or replace function pgq._filter_policy_group(
    key text, conditions jsonb[], scope text, skip int)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_tree jsonb := conditions[1];
begin
    if cardinality(conditions) = 1 and v_tree ->> 'op' in ('any', 'not') then
        return pgq._filter_policy_leaf(v_tree, skip);
    elsif exists (select from unnest(conditions) as c (tree)
            where c.tree ->> 'op' = 'any' or pgq._filter_policy_needs(c.tree)) then
        v_tree := pgq._filter_policy(pgq._filter_combine('and', conditions), 'item', skip + 1);
        return case v_tree ->> 'op'
            when 'each' then v_tree || jsonb_build_object('in', scope,
                'path', jsonb_build_array(key) || (v_tree -> 'path'))
            else jsonb_build_object('op', 'each', 'in', scope, 'path', jsonb_build_array(key),
                    'value', v_tree)
                || case when jsonb_path_exists(v_tree, '$.**."plain"') then '{"plain": true}'
                    else '{}'::jsonb end end;
    end if;
    foreach v_tree in array conditions loop
        v_parts := v_parts || case v_tree ->> 'op'
            when 'or' then pgq._filter_combine('or', array(
                select pgq._filter_policy_group(key, array[t.tree], scope, skip)
                from jsonb_array_elements(v_tree -> 'of') as t (tree)))
            when 'and' then pgq._filter_policy_group(key,
                array(select jsonb_array_elements(v_tree -> 'of')), scope, skip)
            else pgq._filter_policy_leaf(v_tree, skip) end;
    end loop;
    return pgq._filter_combine('and', v_parts);
end
$$;
comment on function pgq._filter_policy_group(text, jsonb[], text, int) is
    'The tree of the conditions of a policy on fields below one key.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/55_filter_equal.sql

-- The headers of a filter that only tests headers for equality; null for other filters. A stored
-- header is a scalar, so headers @> these is the same test as the jsonpath, and cheaper: a claim
-- that finds nothing needs 27 % fewer instructions.
create or replace function pgq._filter_equal(tree jsonb) returns jsonb
language sql immutable parallel safe
return (
    select jsonb_object_agg(coalesce(t.leaf #>> '{path,0}', ''), t.leaf -> 'value')
    from jsonb_array_elements(
        case tree ->> 'op' when 'and' then tree -> 'of' else jsonb_build_array(tree) end) t (leaf)
    having bool_and(t.leaf ->> 'op' = 'eq' and t.leaf ->> 'in' = 'headers'
                    and jsonb_typeof(t.leaf -> 'value') in ('string', 'number', 'boolean')
                    and jsonb_array_length(t.leaf -> 'path') = 1)
       and count(*) = count(distinct t.leaf #>> '{path,0}'));
comment on function pgq._filter_equal(jsonb) is
    'The headers of a filter that only tests headers for equality; null for other filters.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/55_filter_policy.sql

-- The lists of one filter as SNS and EventBridge define them: conditions on fields below an array
-- hold for the same element of it. Takes a tree of op any over whole paths. The result is relative
-- to the element that the first skip keys lead to.
create or replace function pgq._filter_policy(policy jsonb, scope text, skip int default 0)
returns jsonb
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_parts jsonb[] := '{}';
    v_conditions jsonb[];
    v_key text;
begin
    if jsonb_typeof(policy) = 'boolean' then
        return policy;
    end if;
    for v_key, v_conditions in
        select h.head, array_agg(c.tree order by c.position)
        from jsonb_array_elements(case policy ->> 'op' when 'and' then policy -> 'of'
                else jsonb_build_array(policy) end) with ordinality as c (tree, position),
            lateral (select case when c.tree ? 'of' then pgq._filter_policy_head(c.tree, skip)
                when jsonb_array_length(c.tree -> 'path') > skip + 1
                    then c.tree -> 'path' ->> skip end) as h (head)
        group by h.head order by min(c.position)
    loop
        v_parts := v_parts || case
            when v_key is not null then
                array[pgq._filter_policy_group(v_key, v_conditions, scope, skip)]
            else array(
                select case c.tree ->> 'op'
                    when 'or' then pgq._filter_combine('or', array(
                        select pgq._filter_policy(t.tree, scope, skip)
                        from jsonb_array_elements(c.tree -> 'of') as t (tree)))
                    else pgq._filter_policy_leaf(c.tree, skip) end
                from unnest(v_conditions) as c (tree)) end;
    end loop;
    return pgq._filter_combine('and', v_parts);
end
$$;
comment on function pgq._filter_policy(jsonb, text, int) is
    'Turns the lists of a filter into a tree in which one element of an array satisfies all of '
    'them.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/56_filter_spellings.sql

-- The jsonpath steps of a path as SNS and EventBridge walk it: through arrays in arrays, four
-- levels deep, and through keys that hold a dot, because {"a.b": 1} is {"a": {"b": 1}} for them.
-- A path of n keys has 2^(n - 1) spellings; plain returns only the first, and a path of more than
-- four keys has no other.
create or replace function pgq._filter_spellings(path jsonb, plain boolean)
returns text[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_last constant int := jsonb_array_length(path) - 1;
    v_spellings text[] := '{}';
    v_steps text;
    v_key text;
begin
    for v_dots in 0 .. case when plain or v_last > 3 then 0 else (1 << v_last) - 1 end loop
        v_steps := '';
        v_key := '';
        for i in 0 .. v_last loop
            v_key := v_key || (path ->> i);
            -- bit i of v_dots: a dot after the key instead of a step
            if (v_dots >> i) & 1 = 1 then
                v_key := v_key || '.';
            else
                v_steps := v_steps || format('.%s[*][*][*]', to_json(v_key));
                v_key := '';
            end if;
        end loop;
        v_spellings := v_spellings || v_steps;
    end loop;
    return v_spellings;
end
$$;
comment on function pgq._filter_spellings(jsonb, boolean) is
    'The jsonpath steps by which a policy reaches a field, one for each spelling of its keys.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/57_filter_parse_logic.sql

-- $and, $or, $nor or $not of filters -> tree. Only an $or of nothing but policies stays a policy:
-- $and, $nor and $not evaluate each filter separately, as if it were alone.
create or replace function pgq._filter_parse_logic(
    operator text, operand jsonb, scope text, prefix text[], at text, depth int,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_trees jsonb[] := '{}';
    v_closed jsonb[] := '{}';
    v_policies jsonb[] := '{}';
    v_child jsonb;
    v_key text;
    v_at text;
    v_scope constant text := case scope when 'item' then 'item' else 'payload' end;
    v_part record;
begin
    nodes := 1;
    policy := 'true';
    if operator <> '$not' then
        perform pgq._filter_check_list(operand, false, at);
    end if;
    for v_child in select jsonb_array_elements(
            case operator when '$not' then jsonb_build_array(operand) else operand end) loop
        v_at := case operator when '$not' then at
            else format('%s[%s]', at, cardinality(v_trees)) end;
        select o.key into v_key
        from jsonb_each(case jsonb_typeof(v_child) when 'object' then v_child else '{}' end) as o
        where o.key in ('exactly', 'prefix', 'suffix', 'equals-ignore-case', 'wildcard', 'cidr',
                'exists', 'numeric', 'anything-but')
            and jsonb_typeof(o.value) <> 'object';
        if found and operator = '$or' then
            perform pgq._filter_error(v_key || ' is an operator, not a field', v_at,
                format('Write {"key": [{"%s": ...}]}; a field of this name is {"%1$s": '
                    '{"$eq": ...}}.', v_key));
        end if;
        select b.tree, b.policy, b.nodes into v_part
        from pgq._filter_parse_block(v_child, scope, prefix, v_at, depth) as b;
        v_trees := v_trees || v_part.tree;
        v_policies := v_policies || v_part.policy;
        v_closed := v_closed || pgq._filter_combine('and',
            array[v_part.tree, pgq._filter_policy(v_part.policy, v_scope)]);
        nodes := nodes + v_part.nodes;
    end loop;
    if operator = '$or' and 'true' = all (v_trees) then
        tree := 'true';
        policy := pgq._filter_combine('or', v_policies);
        return;
    end if;
    tree := pgq._filter_combine(case operator when '$and' then 'and' else 'or' end, v_closed);
    if operator in ('$nor', '$not') then
        tree := pgq._filter_negate(tree);
    end if;
end
$$;
comment on function pgq._filter_parse_logic(text, jsonb, text, text[], text, int) is
    'Validates a logical operator of a filter and gives its tree.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/57_filter_reads.sql

-- The scope of a tree. If the tree has lists of suffixes, three lines for each place of a text that
-- is compared with one follow: the name of the list, its longest suffix, and a jsonpath.
create or replace function pgq._filter_reads(tree jsonb) returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope constant text := pgq._filter_scope(tree);
begin
    return concat_ws(E'\n', v_scope, (
        select string_agg(concat_ws(E'\n', t.list, t.longest, t.path), E'\n')
        from (select distinct u.* from pgq._filter_texts(tree, v_scope) as u) as t));
end
$$;
comment on function pgq._filter_reads(jsonb) is
    'The scope of a tree, and where the texts are that it compares with lists of suffixes.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/57_filter_texts.sql

-- Where the texts are that a tree compares with lists of suffixes: the name of the list, the length
-- of its longest suffix, and a jsonpath. base is the jsonpath of the element that an item stands
-- for.
create or replace function pgq._filter_texts(
    tree jsonb, scope text, base text default null, out list text, out longest int,
    out path text)
returns setof record
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_base text := base;
begin
    if tree ? 'of' then
        return query
            select t.list, t.longest, t.path
            from jsonb_array_elements(case tree ->> 'op' when 'not'
                    then jsonb_build_array(tree -> 'of') else tree -> 'of' end) as o (tree),
                pgq._filter_texts(o.tree, scope, base) as t;
    elsif tree ->> 'op' in ('suffixes', 'any', 'each', 'elem') then
        v_base := coalesce(base, case
            when scope = 'message' then format('$."%s"', tree ->> 'in')
            when scope = 'content' and tree ->> 'in' = 'headers' then '$"headers"'
            else '$' end);
        for v_base in
            select v_base || s.steps
            from unnest(case when tree -> 'path' = '[]' then '{"[*]"}' else pgq._filter_spellings(
                tree -> 'path', tree ? 'plain' or tree ->> 'op' in ('suffixes', 'elem')) end)
                as s (steps)
        loop
            if tree ->> 'op' = 'suffixes' then
                list := trim(both '"' from pgq._filter_list(tree -> 'value'));
                longest := (select max(length(s.suffix))
                    from jsonb_array_elements_text(tree -> 'value') as s (suffix));
                path := v_base;
                return next;
            else
                return query
                    select t.list, t.longest, t.path
                    from pgq._filter_texts(tree -> 'value', scope, v_base) as t;
            end if;
        end loop;
    end if;
end
$$;
comment on function pgq._filter_texts(jsonb, text, text) is
    'Where the texts are that a tree compares with lists of suffixes.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/58_filter_any.sql

-- The condition of a leaf of a policy: any scalar of the field passes (op any), or any object of it
-- (op each). base is $ or @ as pgq._filter_leaf names it.
create or replace function pgq._filter_any(leaf jsonb, base text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_value constant jsonb := leaf -> 'value';
    v_operator constant text := v_value ->> 'op';
    v_test text;
begin
    case
        when leaf ->> 'op' = 'each' then
            v_test := format(' ? (%s)', pgq._filter_condition(v_value, 'item'));
        when base <> '@' and v_operator = 'eq' then
            -- a comparison tests each item separately; it may be unknown, which counts as false at
            -- the root, but not inside an item
            v_test := format(' == %s', v_value -> 'value');
        when base <> '@' and v_operator in ('prefix', 'suffix', 'wildcard', 'ieq', 'ilike', 'cidr')
        then
            v_test := pgq._filter_text(v_operator, v_value ->> 'value');
        when v_value = 'true' then
            v_test := ' ? (@.type() != "object" && @.type() != "array")';
        when jsonb_path_exists(v_value, '$.**."op" ? (@ == "not")') then
            v_test := format(' ? (@.type() != "object" && @.type() != "array" && %s)',
                pgq._filter_condition(v_value, 'item'));
        else
            v_test := format(' ? (%s)', pgq._filter_condition(v_value, 'item'));
    end case;
    return pgq._filter_join('||', array(
        select format(case when left(v_test, 3) = ' ? ' then 'exists(%s%s%s)' else '%s%s%s' end,
            base, s.spelling, v_test)
        from unnest(pgq._filter_spellings(leaf -> 'path', leaf ? 'plain')) with ordinality
            as s (spelling, position)
        order by s.position));
end
$$;
comment on function pgq._filter_any(jsonb, text) is
    'The jsonpath condition of a leaf that stands for a list of a policy.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/59_filter_field.sql

-- The name of the field that a leaf tests, as lane keys write it; null if a key holds a dot. Inside
-- the value of another leaf, prefix is the name of that leaf's field.
create or replace function pgq._filter_field(leaf jsonb, prefix text default null)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_keys constant text[] := array(select jsonb_array_elements_text(leaf -> 'path'));
begin
    return case
        when array_to_string(v_keys, '') like '%.%' then null
        when leaf ->> 'in' = 'headers' then v_keys[1]
        else array_to_string(coalesce(prefix, leaf ->> 'in') || v_keys, '.') end;
end
$$;
comment on function pgq._filter_field(jsonb, text) is
    'The name of the field that a leaf of a syntax tree tests.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/59_filter_parse.sql

-- Filter document -> syntax tree, or QU004 before anything else happens.
-- A tree is true, false, {"op": "and" | "or", "of": [tree, ...]}, {"op": "not", "of": tree},
-- or a leaf {"op", "in": "headers" | "payload" | "msg" | "item", "path": [key, ...], "value"}.
-- The value of a leaf elem, each or any is a tree for one element, one object, one scalar.
create or replace function pgq._filter_parse(filter jsonb)
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
    select pgq._filter_combine('and', array[b.tree, pgq._filter_policy(b.policy, 'payload')]),
        b.nodes
    into v_tree, v_nodes
    from pgq._filter_parse_block(filter, null, '{}', '$', 1) as b;
    if v_nodes > 100 then
        perform pgq._filter_error('the filter has too many nodes', '$',
            'A filter has at most 100 nodes. A comparison with a value is one; other tests count '
            'more, and patterns that begin anywhere in a text most: see the limits in filter.md.');
    end if;
    return v_tree;
end
$$;
comment on function pgq._filter_parse(jsonb) is
    'Validates a filter document and gives its syntax tree; NULL and {} give true.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/60_filter_fields.sql

-- The fields that a filter tests and that can be lane keys.
create or replace function pgq._filter_fields(tree jsonb, prefix text default null)
returns setof text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_field text;
begin
    if tree ->> 'op' = 'not' then
        return query select * from pgq._filter_fields(tree -> 'of', prefix);
    elsif tree ? 'of' then
        return query
            select distinct f.field from jsonb_array_elements(tree -> 'of') t (tree)
            cross join lateral pgq._filter_fields(t.tree, prefix) f (field);
    elsif tree ->> 'op' = 'each' then
        return query
            select * from pgq._filter_fields(tree -> 'value', pgq._filter_field(tree, prefix));
    elsif tree ? 'in' then
        v_field := pgq._filter_field(tree, prefix);
        if v_field !~ '[#$]' and (v_field not like '%.%' or v_field like 'payload.%' or v_field ~
            '^msg[.](topic|sender|recipient|reply_to|correlation_id|group_key)$')
        then
            return next v_field;
        end if;
    end if;
end
$$;
comment on function pgq._filter_fields(jsonb, text) is
    'The fields that a filter tests and that can be lane keys.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/60_filter_project.sql

-- Projects a filter to these fields: a message that fails the result cannot match the tree. final:
-- no condition was dropped, so that a message that passes the result does match.
create or replace function pgq._filter_project(
    inout tree jsonb, keys text[], negated boolean default false, prefix text default null,
    out final boolean)
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
        from pgq._filter_project(tree -> 'of', keys, not negated, prefix) as w;
    elsif v_operator in ('and', 'or') then
        for v_child in select jsonb_array_elements(tree -> 'of') loop
            select w.tree, w.final into v_part
            from pgq._filter_project(v_child, keys, negated, prefix) as w;
            v_parts := v_parts || v_part.tree;
            final := final and v_part.final;
        end loop;
        tree := pgq._filter_combine(
            case when negated = (v_operator = 'and') then 'or' else 'and' end, v_parts);
    elsif v_operator = 'each' then
        -- Conditions on one object. Their complement is only known if none of them was dropped.
        select w.tree, w.final into v_part
        from pgq._filter_project(
            tree -> 'value', keys, false, pgq._filter_field(tree, prefix)) as w;
        final := v_part.final;
        tree := case
            when jsonb_typeof(v_part.tree) = 'boolean' or negated and not final then 'true'::jsonb
            when negated then pgq._filter_negate(tree)
            else tree || jsonb_build_object('value', v_part.tree) end;
    elsif pgq._filter_field(tree, prefix) = any (keys) and pgq._filter_lists(tree) = '{}' then
        tree := case when negated then pgq._filter_negate(tree) else tree end;
    else
        tree := 'true';
        final := false;
    end if;
end
$$;
comment on function pgq._filter_project(jsonb, text[], boolean, text) is
    'Projects a syntax tree to the given fields; final if no condition was dropped.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/60_filter_values.sql

-- The values that a field of a match can have, as an array: from tests of equality and membership.
-- A JSON null stands for a missing field too. NULL: the filter has no such test.
create or replace function pgq._filter_values(tree jsonb, field text, prefix text default null)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_operator constant text := tree ->> 'op';
    v_of constant jsonb := tree -> 'of';
    v_value constant jsonb := tree -> 'value';
    v_field text;
begin
    if jsonb_typeof(tree) = 'boolean' then
        return case when tree = 'false' then '[]'::jsonb end;
    elsif v_operator = 'and' then
        return (
            select v."values"
            from jsonb_array_elements(v_of) t (tree)
            cross join lateral (
                select pgq._filter_values(t.tree, field, prefix) as "values") v
            where v."values" is not null
            order by jsonb_array_length(v."values") limit 1);
    elsif v_operator = 'or' then
        return (
            select case when bool_and(v."values" is not null) then
                       coalesce(jsonb_path_query_array(jsonb_agg(v."values"), '$[*][*]'), '[]') end
            from jsonb_array_elements(v_of) t (tree)
            cross join lateral (
                select pgq._filter_values(t.tree, field, prefix) as "values") v);
    elsif v_operator = 'not' and v_of ->> 'op' = 'not' then
        return pgq._filter_values(v_of -> 'of', field, prefix);
    end if;
    v_field := pgq._filter_field(case v_operator when 'not' then v_of else tree end, prefix);
    return case
        when v_operator = 'each' then pgq._filter_values(v_value, field, v_field)
        when v_field is distinct from field then null
        when v_operator = 'eq' and jsonb_typeof(v_value) not in ('array', 'object') then
            jsonb_build_array(v_value)
        when v_operator = 'in' then v_value
        when v_operator = 'any' then pgq._filter_values(v_value, field, field)
        when v_operator = 'not' and (v_of ->> 'op' in ('some', 'exists')
                or v_of ->> 'op' = 'any' and v_of -> 'value' = 'true') then '[null]' end;
end
$$;
comment on function pgq._filter_values(jsonb, text, text) is
    'The values that a filter allows a field to have; NULL if it allows all.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/61_message_document.sql

-- The document that a filter of scope message reads; timestamps are epoch seconds in it.
create or replace function pgq._message_document(
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/61_test_suffixes.sql

-- Whether a message passes a compiled filter that has lists of suffixes. The texts that end with
-- one of them are found first: a search needs them reversed, and a jsonpath cannot do that.
create or replace function pgq._test_suffixes(
    path jsonpath, scope text, headers jsonb, payload jsonb, topic text, priority int, sender text,
    recipient text, reply_to text, correlation_id text, group_key text, attempt int,
    published_at timestamptz, expires_at timestamptz, id bigint, now timestamptz)
returns boolean
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_reads constant text[] := string_to_array(scope, E'\n');
    v_target constant jsonb := case v_reads[1]
        when 'headers' then coalesce(headers, '{}')
        when 'message' then pgq._message_document(headers, payload, topic, priority, sender,
            recipient, reply_to, correlation_id, group_key, attempt, published_at, expires_at, id)
        else coalesce(payload, 'null') end;
    v_vars constant jsonb := case v_reads[1]
        when 'content' then jsonb_build_object('headers', headers)
        when 'message' then jsonb_build_object('now', extract(epoch from now))
        else '{}' end;
    v_texts jsonb;
    v_found jsonb := '{}';
begin
    for i in 2 .. cardinality(v_reads) by 3 loop
        v_texts := jsonb_path_query_array(v_target, v_reads[i + 2]::jsonpath, v_vars, true);
        for j in 0 .. jsonb_array_length(v_texts) - 1 loop
            if jsonb_path_match('null', path, jsonb_build_object('list', v_reads[i], 'found', null,
                    'text', reverse(right(v_texts ->> j, v_reads[i + 1]::int))), true) then
                v_found := jsonb_set(v_found, v_reads[i:i], coalesce(v_found -> v_reads[i], '[]')
                    || jsonb_build_array(v_texts -> j));
            end if;
        end loop;
    end loop;
    return jsonb_path_match(v_target, path, v_vars || jsonb_build_object(
        'list', '', 'text', null, 'found', v_found), true);
end
$$;
comment on function pgq._test_suffixes(jsonpath, text, jsonb, jsonb, text, int, text, text, text,
    text, text, int, timestamptz, timestamptz, bigint, timestamptz) is
    'Whether a message passes a compiled filter that has lists of suffixes.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/62_test_filter.sql

-- Whether a message passes a compiled filter. The planner inlines the expression; the document is
-- built, and the payload read, only for a filter that needs them. No path: everything passes.
create or replace function pgq._test_filter(
    path jsonpath, scope text, headers jsonb, payload jsonb, topic text, priority int, sender text,
    recipient text, reply_to text, correlation_id text, group_key text, attempt int,
    published_at timestamptz, expires_at timestamptz, id bigint, now timestamptz)
returns boolean
language sql stable parallel safe
return path is null or coalesce(pg_catalog.jsonb_path_match(
    case scope
        when 'headers' then coalesce(headers, '{}')
        when 'payload' then coalesce(payload, 'null')
        when 'content' then coalesce(payload, 'null')
        when 'message' then pgq._message_document(headers, payload, topic, priority, sender,
            recipient, reply_to, correlation_id, group_key, attempt, published_at, expires_at, id)
        end,
    path,
    case scope
        when 'headers' then '{}'
        when 'payload' then '{}'
        when 'content' then pg_catalog.jsonb_build_object('headers', headers)
        else pg_catalog.jsonb_build_object('now', extract(epoch from now)) end,
    true), case when pg_catalog.strpos(scope, E'\n') > 0 then pgq._test_suffixes(
        path, scope, headers, payload, topic, priority, sender, recipient, reply_to,
        correlation_id, group_key, attempt, published_at, expires_at, id, now) end);
comment on function pgq._test_filter(jsonpath, text, jsonb, jsonb, text, int, text, text, text,
    text, text, int, timestamptz, timestamptz, bigint, timestamptz) is
    'Whether a message passes a compiled filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/63_matches.sql

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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/64_filter_bounds.sql

-- Joins conditions (of a conjunction) that bound one field from both sides: $gte and $lt are
-- separate tests. If the field has several values, each bound may hold for another value.
create or replace function pgq._filter_bounds(choices jsonb)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(jsonb_agg(
            jsonb_build_array(r.base || jsonb_build_object('value', jsonb_build_array(
                case r.base ->> 'kind' when 'range' then to_jsonb(r.low_number)
                    else to_jsonb(r.low_text) end,
                case r.base ->> 'kind' when 'range' then to_jsonb(r.high_number)
                    else to_jsonb(r.high_text) end)))
            || case r.base ->> 'in' when 'payload'
                then jsonb_build_array(r.base || '{"kind": "several"}') else '[]' end), '[]')
        from (
            select (c.choice -> 0) - 'value' as base,
                max(case b.numbers when true then b.low::numeric end) as low_number,
                min(case b.numbers when true then b.high::numeric end) as high_number,
                max(case b.numbers when false then b.low end collate "C") as low_text,
                min(case b.numbers when false then b.high end collate "C") as high_text
            from jsonb_array_elements(choices) as c (choice),
                lateral (select c.choice -> 0 ->> 'kind' = 'range',
                    c.choice -> 0 -> 'value' ->> 0, c.choice -> 0 -> 'value' ->> 1)
                    as b (numbers, low, high)
            where jsonb_array_length(c.choice) = 1
                and c.choice -> 0 ->> 'kind' in ('range', 'text range')
            group by 1 having count(*) > 1
        ) as r);
end
$$;
comment on function pgq._filter_bounds(jsonb) is
    'Joins conditions that bound a field from both sides.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/65_filter_anchors.sql

-- Conditions that a message must satisfy to match a tree, and that can be looked up. A choice is a
-- list of {"in", "path", "kind", "value"}; a match satisfies at least one of them. The result is a
-- list of choices, of which one is enough; [] if there is none. scope and prefix are those of the
-- element that an item stands for.
create or replace function pgq._filter_anchors(
    tree jsonb, scope text default null, prefix jsonb default '[]')
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kinds constant text[] := '{equal,prefix,range,text range,there,missing}';
    v_operator constant text := tree ->> 'op';
    v_value constant jsonb := tree -> 'value';
    v_base constant jsonb := case tree ->> 'in'
        when 'item' then jsonb_build_object('in', scope, 'path', prefix || (tree -> 'path'))
        else jsonb_build_object('in', tree -> 'in', 'path', tree -> 'path') end;
    v_there constant jsonb := jsonb_build_array(jsonb_build_array(v_base || '{"kind": "there"}'));
    v_choices jsonb := '[]';
    v_all jsonb := '[]';
    v_child jsonb;
begin
    if jsonb_typeof(tree) = 'boolean' then
        return '[]'::jsonb;
    elsif v_operator in ('and', 'or') then
        for v_child in select jsonb_array_elements(tree -> 'of') loop
            v_choices := pgq._filter_anchors(v_child, scope, prefix);
            if v_operator = 'and' then
                v_all := v_all || v_choices;
            elsif v_choices = '[]' then
                return '[]'::jsonb;
            else
                select v_all || c.choice into v_all
                from jsonb_array_elements(v_choices) as c (choice)
                order by (select max(array_position(v_kinds, p.piece ->> 'kind'))
                    from jsonb_array_elements(c.choice) as p (piece)) limit 1;
            end if;
            exit when jsonb_array_length(v_all) > 100;
        end loop;
        return case when v_operator = 'and' then pgq._filter_bounds(v_all) || v_all
            when jsonb_array_length(v_all) > 100 then '[]'
            else jsonb_build_array(v_all) end;
    elsif v_operator = 'not' then
        -- only where a field has one value: any element of an array could be another
        v_child := tree -> 'of';
        return case
            when v_child ->> 'op' not in ('exists', 'some')
                or v_child ->> 'in' not in ('headers', 'msg') then '[]'
            else jsonb_build_array(
                jsonb_build_array((v_child - 'op') || '{"kind": "missing"}')
                || case when v_child ->> 'op' = 'some' and v_child ->> 'in' = 'headers' then
                    jsonb_build_array((v_child - 'op') || '{"kind": "equal", "value": null}')
                else '[]' end) end;
    elsif v_base ->> 'in' = 'payload' and jsonb_array_length(v_base -> 'path') > 4
        or v_base ->> 'in' = 'msg' and (v_operator = 'type' or v_base -> 'path' ->> 0 not in (
            'topic', 'priority', 'sender', 'recipient', 'reply_to', 'correlation_id', 'group_key'))
    then
        -- the parts of a longer path have spellings that the whole path does not have
        return '[]'::jsonb;
    end if;
    case
        when v_operator in ('each', 'elem', 'any') then
            v_choices := pgq._filter_anchors(v_value, v_base ->> 'in', v_base -> 'path');
            return case when v_choices = '[]' then v_there else v_choices end;
        when v_operator = 'eq' and jsonb_typeof(v_value) not in ('array', 'object') then
            return jsonb_build_array(jsonb_build_array(
                v_base || jsonb_build_object('kind', 'equal', 'value', v_value)));
        when v_operator = 'in' and jsonb_array_length(v_value) <= 100 then
            return jsonb_build_array((
                select jsonb_agg(v_base || jsonb_build_object('kind', 'equal', 'value', e.value))
                from jsonb_array_elements(v_value) as e (value)));
        when v_operator = 'range' then
            return jsonb_build_array(jsonb_build_array(v_base || jsonb_build_object(
                'kind', case when jsonb_path_exists(v_value, 'strict $.* ? (@.type() == "string")')
                    then 'text range' else 'range' end,
                'value', jsonb_build_array(coalesce(v_value -> 'gt', v_value -> 'gte'),
                    coalesce(v_value -> 'lt', v_value -> 'lte')))));
        when v_operator in ('prefix', 'like', 'wildcard', 'topic') or v_operator = 'patterns'
                and jsonb_array_length(v_value) <= 100 then
            select jsonb_agg(v_base || jsonb_build_object('kind', 'prefix', 'value', h.head))
            into v_all
            from jsonb_array_elements(case v_operator when 'patterns' then v_value
                    else jsonb_build_array(jsonb_build_array(v_operator, v_value)) end) as t (test),
                lateral (select left(case t.test ->> 0
                    when 'prefix' then t.test ->> 1
                    when 'like' then substring(t.test ->> 1 from E'^[^%_\\\\]*')
                    when 'wildcard' then substring(t.test ->> 1 from E'^[^*\\\\]*')
                    -- orders.# matches orders, too
                    when 'topic' then rtrim(substring(t.test ->> 1 from '^[^*#]*'), '.')
                    else '' end, 64)) as h (head);
            return case when v_all @> '[{"value": ""}]' then v_there
                else jsonb_build_array(v_all) end;
        else
            return v_there;
    end case;
end
$$;
comment on function pgq._filter_anchors(jsonb, text, jsonb) is
    'Conditions by which publishing can find a syntax tree: choices of alternatives.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/70_matches.sql

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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/71_compile_filter.sql

-- A filter in compiled form: the part of the message it reads, the jsonpath that runs, operands.
create or replace function pgq.compile_filter(
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
    'Shows the compiled form of a filter. scope: what it reads (headers, payload, content for '
    'both, message if also other fields). path: the jsonpath that runs. tree: the normal form. '
    'operands: its values. QU004 if the filter is invalid.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/72_filter_header.sql

-- The field name of a header, for the builders; refuses a key that they cannot use.
create or replace function pgq._filter_header(key text)
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
    elsif key !~ '^[a-zA-Z][a-zA-Z0-9_-]*$' then
        perform pgq._filter_error('invalid key ' || left(to_json(key)::text, 64), 'key',
            'A header key is a letter, then letters, digits, _ and -.');
    end if;
    perform pgq._filter_parse_name(key, 'headers', '{}', 'key');
    -- these three names alone would be a scope
    return case when key in ('headers', 'payload', 'msg') then 'headers.' || key else key end;
end
$$;
comment on function pgq._filter_header(text) is
    'Validates the header key of a builder and gives its field name; QU004 if it cannot be used.';
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/73_header_equals.sql

-- Builds a filter: the header is this text.
create or replace function pgq.header_equals(key text, value text)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/74_header_in.sql

-- Builds a filter: the header is one of these texts.
create or replace function pgq.header_in(key text, "values" text[])
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/75_header_not_equals.sql

-- Builds a filter: the header has another value. A missing header matches with include_missing.
create or replace function pgq.header_not_equals(
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/76_header_like.sql

-- Builds a filter: the header matches this SQL pattern.
create or replace function pgq.header_like(key text, pattern text)
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/77_all_of.sql

-- Builds a filter: all of these filters match.
create or replace function pgq.all_of(variadic filters jsonb[])
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
$pgq_script$;
    execute $pgq_script$
-- sql/20_filter/78_any_of.sql

-- Builds a filter: any of these filters match.
create or replace function pgq.any_of(variadic filters jsonb[])
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
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/as_micros.sql

-- A time in exact microseconds: a float is not exact beyond the year 2255. Stable like extract():
-- the planner inlines an immutable function only if its whole body is immutable.
create or replace function pgq._micros(moment timestamptz) returns bigint
language sql stable parallel safe
return (extract(epoch from moment) * 1000000)::bigint;
comment on function pgq._micros(timestamptz) is 'A finite time in microseconds since 1970.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/as_moment.sql

-- A time as text that does not depend on session settings; also infinity.
create or replace function pgq._moment(moment timestamptz) returns text
language sql stable parallel safe
return case when isfinite(moment)
    then to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    else moment::text end;
comment on function pgq._moment(timestamptz) is 'A time as text, in UTC.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/first_ids.sql

-- The n lowest ids of a set.
create or replace function pgq._first_ids(ids int8multirange, n bigint) returns int8multirange
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
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/lease_second.sql

-- Tokens of leases. A token starts with the second in which its lease ends, so that the primary
-- index finds expired leases: 30 bits of seconds since 2025, 23 bits of a sequence, together exact
-- in a JavaScript number. The last 2^20 seconds of that range belong to leases without an end. From
-- 2058 on all tokens begin with the second before these; _lease_second_end is right also then.
create or replace function pgq._lease_second(moment timestamptz) returns bigint
language sql stable parallel safe
return least(greatest(floor(date_part('epoch', moment) - 1735689600), 0), 1072693247)::bigint << 23;
comment on function pgq._lease_second(timestamptz) is
    'The first lease token of the second of that moment.';

-- Leases that have ended by that moment have tokens below this one.
create or replace function pgq._lease_second_end(moment timestamptz) returns bigint
language sql stable parallel safe
return pgq._lease_second(moment) + (1::bigint << 23);
comment on function pgq._lease_second_end(timestamptz) is
    'The first lease token after the second of that moment.';

create or replace function pgq._lease_token(until timestamptz) returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease_id bigint;
begin
    if until = 'infinity' then
        return (1072693248::bigint << 23) + nextval('pgq.endless_lease_id');
    end if;
    -- The sequence starts again after 2 million claims: skip numbers that are still in use.
    loop
        v_lease_id := pgq._lease_second(until) + nextval('pgq.checked_lease_id');
        exit when not exists (select from pgq.lease l where l.lease_id = v_lease_id);
    end loop;
    return v_lease_id;
end
$$;
comment on function pgq._lease_token(timestamptz) is
    'A new token, for a lease that lasts until the given time.';

-- A token for a lease of one row. The sequence starts again after 6 million claims. A lease of a
-- minute ends before that, so it needs no lookup; a longer one gets a number that is looked up. The
-- planner inlines it.
create or replace function pgq._row_token(now timestamptz, until timestamptz) returns bigint
language sql volatile
return case when until <= now + interval '1 min'
       then pgq._lease_second(until) + nextval('pgq.lease_id')
       else pgq._lease_token(until) end;
comment on function pgq._row_token(timestamptz, timestamptz) is
    'A new token, for a lease of one row that lasts until the given time.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/limit.sql

-- All tuned numbers. The planner folds a call into a constant. Tests replace this function to reach
-- a limit with few messages.
create or replace function pgq._limit(name text) returns int
language sql immutable parallel safe
return case name
    -- New rows that a claim looks up by transaction; if there are more, it begins at the first row.
    when 'late_rows' then 1000
    -- How often a second a session does upkeep and stores its low watermark, and after how many
    -- seconds it scans a queue from its first row again.
    when 'ticks' then 40
    when 'watermark_seconds' then 60
    -- A set of ids is read as one range of the log, if the range is at most so many times as large.
    when 'range_factor' then 4
    -- Rows from the head on among which fast paths look for it.
    when 'window_rows' then 64
    -- After how many seconds upkeep reads all leases and scheduled rows of a queue again.
    when 'full_seconds' then 5
    -- Rows that one upkeep within a claim handles of each kind, and messages in them.
    when 'upkeep_rows' then 100
    when 'upkeep_messages' then 2000
    -- The same for one step of maintain().
    when 'maintain_rows' then 1000
    when 'maintain_messages' then 100000
    -- Ranges of ids that one step of maintain() copies into the current era, whatever the time.
    when 'copy_ranges' then 1000
    -- Rows that a claim reads in order while expired rows are left, before it skips them.
    when 'expired_rows' then 100
    -- Messages that one step of maintain() sorts into lanes.
    when 'sort_messages' then 50000
    -- Messages of a claim by filter that fit into one lease row, whatever gaps their ids have.
    when 'one_lease_row' then 500
    -- A claim that has tested so many messages, or skipped so many rows that are known not to
    -- match, stores the scan cursor of its filter.
    when 'cursor_tests' then 500
    when 'cursor_rows' then 32
    -- Messages that filters test without a match before a queue with lane_keys {auto} adds a key.
    when 'auto_tests' then 1000
    -- Filters and lanes that are kept of a queue.
    when 'filters' then 10000
    when 'lanes' then 1000
    -- Batches of a stream whose lineage is kept.
    when 'lineage' then 1000
    -- The most messages, and pages of each slot of the audit log, that one count reads; and the
    -- most since the last count for which a reader of statistics counts them itself.
    when 'count_messages' then 2000000
    when 'count_pages' then 50000
    when 'live_messages' then 10000
    when 'live_pages' then 1000
    -- Hours for which traffic is kept.
    when 'traffic_hours' then 12
    -- Rows that cancel, purge, move and reschedule handle in one statement.
    when 'operate_rows' then 1000
    -- The fewest filtered subscriptions of a topic that are found by their anchors; the fewest
    -- filters for which a field is looked up by value; the most fields and patterns looked up.
    when 'standing_filters' then 128
    when 'field_filters' then 8
    when 'fields' then 64
    when 'field_patterns' then 16
    -- Filters whose anchors one step of maintain() rebuilds.
    when 'gc_anchors' then 200
    -- A set of suspects is redelivered in rows of its size divided by this.
    when 'suspect_split' then 10
    -- Years that a retention may last, and any other interval of a policy.
    when 'retention_years' then 100
    when 'policy_years' then 10
    -- Lanes that one claim takes from, where lanes take turns.
    when 'turns' then 2
    -- Schedules that one claim runs, and missed runs of each of them that it publishes.
    when 'schedules' then 10
    when 'schedule_runs' then 100
    -- Schedules that a consumer reads before it sleeps.
    when 'schedules_ahead' then 100
    -- Delay after which missed => 'skip' skips a run: maintain() is called about once a minute.
    when 'schedule_late_seconds' then 120
end;
comment on function pgq._limit(text) is 'Numbers that were chosen by measurement.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/lose_lease.sql

-- Raises QU003: the same error for a lease that has ended and for one that the caller may not see.
create or replace function pgq._lose_lease(lease_id bigint) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- No token is that small: tokens begin with the seconds since the beginning of 2025.
    if coalesce(lease_id, 0) < 1::bigint << 40 then
        raise exception '% is not a lease id', coalesce(lease_id::text, 'null')
            using errcode = 'QU003',
                  hint = 'Use the lease_id that pgq.claim has returned, not the id of a message; '
                      'ids are the second argument.';
    end if;
    raise exception 'lease % is lost', lease_id
        using errcode = 'QU003',
              hint = 'It was ended, or it expired and its messages are with another consumer. '
                  'Ask for a longer lease, or extend it while you work.';
end
$$;
comment on function pgq._lose_lease(bigint) is 'Raises QU003.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/message_checksum.sql

-- A checksum of 32 bits to verify a copy of a message; the reader of a copy computes the same one.
-- Null and an empty text give different checksums. An infinite time has no microseconds.
create or replace function pgq._checksum(message pgq.message) returns bigint
language sql stable parallel safe
return ('x' || left(md5(concat_ws('|', message.id, message.topic, message.priority,
    message.headers, message.payload, pgq._micros(message.published_at),
    -- Most messages have none of these: one test instead of six takes a fifth off the checksum.
    case when num_nonnulls(message.sender, message.recipient, message.reply_to,
                           message.correlation_id, message.group_key, message.dedup_key) = 0
        then '-|-|-|-|-|-'
        else concat_ws('|',
            coalesce('=' || message.sender, '-'), coalesce('=' || message.recipient, '-'),
            coalesce('=' || message.reply_to, '-'), coalesce('=' || message.correlation_id, '-'),
            coalesce('=' || message.group_key, '-'), coalesce('=' || message.dedup_key, '-')) end,
    coalesce('=' || message.publisher, '-'), coalesce('=' || pgq._moment(message.deliver_at), '-'),
    case when isfinite(message.expires_at) then pgq._micros(message.expires_at)::text
         else '-' end)), 8))::bit(32)::bigint;
comment on function pgq._checksum(pgq.message) is
    'A checksum to verify a copy of a message.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/rank.sql

-- All arithmetic on ranks is in this file.
--
-- A rank is one number that sorts as (priority descending, redeliveries before first deliveries,
-- lowest id). Each priority has 2^50 ranks: the lower half for redeliveries, the upper half for
-- first deliveries. Because it is one number, an index scan can start anywhere in a queue.
create or replace function pgq._rank(priority int, back boolean, id bigint) returns bigint
language sql immutable parallel safe
return -priority::bigint * 1125899906842624
    + case when back then 0 else 562949953421312 end + id;
comment on function pgq._rank(int, boolean, bigint) is 'The rank of a message in its queue.';

create or replace function pgq._rank_class(rank bigint) returns bigint
language sql immutable parallel safe
return rank >> 49;
comment on function pgq._rank_class(bigint) is
    'The number that all ranks of one priority and one kind of delivery share.';

create or replace function pgq._rank_of(class bigint, id bigint) returns bigint
language sql immutable parallel safe
return (class << 49) + id;
comment on function pgq._rank_of(bigint, bigint) is 'The rank of a message within a class.';

create or replace function pgq._rank_id(rank bigint) returns bigint
language sql immutable parallel safe
return rank & 562949953421311;
comment on function pgq._rank_id(bigint) is 'The lowest message id of a row with that rank.';

create or replace function pgq._rank_is_back(rank bigint) returns boolean
language sql immutable parallel safe
return (rank >> 49) & 1 = 0;
comment on function pgq._rank_is_back(bigint) is 'Whether the rank is one of a redelivery.';

create or replace function pgq._rank_first() returns bigint
language sql immutable parallel safe
return -9223372036854775808;
comment on function pgq._rank_first() is 'A rank that sorts before all others.';

create or replace function pgq._rank_last() returns bigint
language sql immutable parallel safe
return 9223372036854775807;
comment on function pgq._rank_last() is 'A rank that sorts after all others.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/set_of.sql

-- The set of the given ids.
create or replace function pgq._set_of(ids bigint[]) returns int8multirange
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
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/set_size.sql

-- How many ids a set holds.
create or replace function pgq._set_size(ids int8multirange) returns int
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
comment on function pgq._set_size(int8multirange) is 'The number of ids in a set.';
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/slice_ranges.sql

-- The part of a set that belongs to a slice: one of every "of" blocks of 64 ids. So a message stays
-- in its slice when others leave the set, and neighbours are read together.
create or replace function pgq._slice_ranges(ids int8multirange, slice int, "of" int)
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
$pgq_script$;
    execute $pgq_script$
-- sql/21_id/spans.sql

-- The ranges of the log in which to read the messages of a set. Each range is one search in an
-- index, which costs as much as reading about ten messages. So a set with small gaps is read as one
-- range. This range then also holds ids of others: among is the set, and null for other ranges.
-- The planner inlines it, and because of OFFSET computes it once for a range and not for each
-- message.
create or replace function pgq._spans(
    ids int8multirange, size int, out first bigint, out behind bigint, out among int8multirange
) returns setof record
language sql immutable parallel safe
begin atomic
    select lower(s.ids), upper(s.ids),
           case when upper(_spans.ids) - lower(_spans.ids)
                     between _spans.size + 1
                         and pgq._limit('range_factor')::bigint * _spans.size
           then _spans.ids end
    from unnest(
        case when upper(_spans.ids) - lower(_spans.ids)
                  <= pgq._limit('range_factor')::bigint * _spans.size
        then int8multirange(range_merge(_spans.ids)) else _spans.ids end) s (ids)
    offset 0;
end;
comment on function pgq._spans(int8multirange, int) is
    'The ranges of the log in which to read the messages of a set.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/check_topic.sql

-- Raises 22023 unless the text can name a topic or a queue.
create or replace function pgq._check_topic(topic text) returns void
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
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/did_you_mean.sql

-- The beginning of a hint: a queue with a similar name, or a topic that a queue receives. Only of
-- queues that the caller has a right to: a hint must not reveal others. '' if there is none, or if
-- the caller is not known. Called when an error is certain.
create or replace function pgq._did_you_mean(
    caller name, name text, topic boolean default false
) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner boolean := pgq._is_owner(caller);
    v_near text;
begin
    select n.name into v_near
    from (
        select q.name, q.queue_id from pgq.queue q where not _did_you_mean.topic
        union all
        select b.pattern, b.queue_id from pgq.binding b
        where _did_you_mean.topic and b.regex is null
    ) n
    where n.name <> _did_you_mean.name and pgq._is_near(n.name, _did_you_mean.name)
      and (v_owner or exists (
          select from pgq.queue_right r
          where r.queue_id = n.queue_id and pg_has_role(_did_you_mean.caller, r.role, 'usage')))
    order by abs(length(n.name) - length(_did_you_mean.name)), n.name limit 1;
    return coalesce('Did you mean "' || v_near || '"? ', '');
end
$$;
comment on function pgq._did_you_mean(name, text, boolean) is
    'The beginning of a hint: a queue or topic with a similar name that the caller may see.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/is_near.sql

-- Whether two names are similar: they differ only in case, in _ or -, or in one letter.
create or replace function pgq._is_near(a text, b text) returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_a text := translate(lower(a), '_- ', '');
    v_b text := translate(lower(b), '_- ', '');
begin
    if v_a = v_b then
        return true;
    elsif abs(length(v_a) - length(v_b)) > 1 or length(v_a) not between 3 and 64 then
        return false;
    end if;
    -- One letter added, removed, replaced or moved: equal after one letter of each is left out.
    return array(select overlay(v_a placing '' from i for 1)
                 from generate_series(1, length(v_a)) i) || v_a
        && (array(select overlay(v_b placing '' from i for 1)
                  from generate_series(1, length(v_b)) i) || v_b);
end
$$;
comment on function pgq._is_near(text, text) is 'Whether two names are similar.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/is_owner.sql

-- Whether the caller may do everything, for SECURITY DEFINER functions: the owner, its members and
-- superusers may. The planner inlines the expression, because every call evaluates it.
create or replace function pgq._is_owner(caller name) returns boolean
language sql stable parallel safe
return coalesce(caller = current_user or pg_has_role(caller, current_user, 'usage'), false);
comment on function pgq._is_owner(name) is 'Whether the caller may do everything.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/queue.sql

-- The queue of that name, or QU001. suggest: the caller is the owner, who may see similar names.
-- (A caller of type name would be a second collation, and the queue would not be found by index.)
create or replace function pgq._queue(name text, suggest boolean default false) returns pgq.queue
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
                  hint = pgq._did_you_mean(case when suggest then current_user end, _queue.name)
                      || 'Create it with pgq.create_queue(queue) or '
                         'pgq.subscribe(queue, pattern).';
    end if;
    return v_queue;
end
$$;
comment on function pgq._queue(text, boolean) is 'The queue of that name, or QU001.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/queue_for.sql

-- The queue of that name, for a caller who has the right to it.
create or replace function pgq._queue_for(caller name, "right" text, name text) returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq._is_owner(caller) then
        return pgq._queue(_queue_for.name, suggest => true);
    end if;
    perform pgq._require(caller, _queue_for.right, _queue_for.name);
    return pgq._queue(_queue_for.name);
end
$$;
comment on function pgq._queue_for(name, text, text) is
    'The queue of that name, for a caller who has the right to it.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/require.sql

-- Raises 42501 unless the caller, who is not the owner, has the right to the queue. The error is
-- the same for a queue that the caller may not use and for one that does not exist.
create or replace function pgq._require(caller name, "right" text, queue text) returns void
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
                  hint = pgq._did_you_mean(caller, queue)
                      || format('If there is such a queue, its owner can grant you the right: '
                          'pgq.grant_queue(queue, role, %L).', _require.right);
    end if;
end
$$;
comment on function pgq._require(name, text, text) is
    'Raises 42501 unless the caller has the right to the queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/require_lease.sql

-- Raises QU003 unless the caller, who is not the owner, may consume the queue of the lease: lease
-- ids can be guessed.
create or replace function pgq._require_lease(caller name, lease_id bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Every row of the lease, although no token is shared by leases of several queues.
    if (select bool_and(exists (
            select from pgq.queue_right r
            where r.queue_id = l.queue_id and r.right in ('consume', 'admin')
              and pg_has_role(_require_lease.caller, r.role, 'usage')))
        from (select distinct p.queue_id from pgq.lease p
              where p.lease_id = _require_lease.lease_id) l) is not true
    then
        perform pgq._lose_lease(lease_id);
    end if;
end
$$;
comment on function pgq._require_lease(name, bigint) is
    'Raises QU003 unless the caller may consume the queue of the lease.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/require_topic.sql

-- Raises 42501 unless the caller, who is not the owner, may publish to a queue that receives the
-- topic, whatever its filter. The error is the same for a topic that the caller may not use and for
-- one that no queue receives.
create or replace function pgq._require_topic(caller name, topic text) returns void
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
    -- Tests only the patterns of queues that the caller may publish to.
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
              hint = pgq._did_you_mean(caller, topic, true)
                  || 'If a queue receives it, its owner can grant you the right: '
                  'pgq.grant_queue(queue, role, ''publish'').';
end
$$;
comment on function pgq._require_topic(name, text) is
    'Raises 42501 unless the caller may publish to a queue that receives the topic.';
$pgq_script$;
    execute $pgq_script$
-- sql/22_rights/visible_queues.sql

-- The queues that the caller may consume; null: all of them, for the owner.
create or replace function pgq._visible_queues(caller name) returns int[]
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
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/bounded.sql

-- A time span that can be added to any date: between zero and the given years, without negative
-- parts ('-1000000 years 365000000 days' is a short span that no date can be moved by). Others
-- count as the given years: an absurd stored value must not make calls fail. All code reads the
-- intervals of pgq.queue by this function or by _lease_span.
create or replace function pgq._bounded(span interval, years int) returns interval
language sql immutable parallel safe
return case when extract(year from span) >= 0 and extract(month from span) >= 0
                 and extract(day from span) >= 0 and extract(hour from span) >= 0
       then least(greatest(span, interval '0'), make_interval(years => years))
       else make_interval(years => years) end;
comment on function pgq._bounded(interval, int) is
    'A duration of at most the given years, which can be added to any date.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/flush.sql

-- Makes the commit of this transaction wait for the disk if synchronous_commit is off. A checkpoint
-- outside of the database continues from this commit: a crash must not undo it.
create or replace function pgq._flush() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
comment on function pgq._flush() is
    'Makes the commit of this transaction wait for the disk, even if synchronous_commit is off.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/lock.sql

-- Locks a name until the transaction ends. Waits for a transaction that holds the lock.
create or replace function pgq._lock(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.mutex m where m.what = _lock.what for update;
end
$$;
comment on function pgq._lock(text) is 'Locks a name until the transaction ends.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/now.sql

-- The clock of all leases, delays and expiries. Tests replace this one function.
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return pg_catalog.clock_timestamp();
comment on function pgq.now() is 'The clock of leases, delays and expiries.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/refuse_missing.sql

-- Raises an error for a lease with ids that have no message: 40001 if the transaction reads with an
-- old snapshot, else XX001. Otherwise the caller could acknowledge messages that it never got.
create or replace function pgq._refuse_missing(lease_id bigint) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._refuse_snapshot();
    raise exception 'lease % holds messages that are not in the log', lease_id
        using errcode = 'data_corrupted',
              hint = 'select * from pgq.check() names them. Restore them from a backup.';
end
$$;
comment on function pgq._refuse_missing(bigint) is
    'Raises an error for a lease with ids that have no message.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/refuse_old_routing.sql

-- Raises 40001 if the transaction reads with a snapshot from before the last change of a queue: it
-- might not see the lanes that the queue has now, and put a message where no claim finds it.
create or replace function pgq._refuse_old_routing() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Locking a row that has changed fails. The lock itself is not needed: the rollback of this
    -- block releases it at once. The caller already has a transaction id, by which a later change
    -- of a queue takes it into account.
    perform from pgq.routing for share skip locked;
    raise exception using errcode = 'QU000';
exception
    when sqlstate 'QU000' then
        null;
end
$$;
comment on function pgq._refuse_old_routing() is
    'Raises 40001 if the transaction does not see the last change of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/refuse_snapshot.sql

-- Raises 40001 if the transaction reads with an old snapshot; called when messages were not found.
--
-- TRUNCATE empties an era for older snapshots too, and these do not see the copies of unfinished
-- messages either. Under READ COMMITTED every statement takes a new snapshot after it has locked
-- the log: a message that it does not find is not in the log.
create or replace function pgq._refuse_snapshot() returns void
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
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/share_lock.sql

-- Takes a shared lock on a name until the transaction ends. Only exclusive locks (_lock) wait for
-- it.
create or replace function pgq._share_lock(what text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.mutex m where m.what = _share_lock.what for share;
end
$$;
comment on function pgq._share_lock(text) is
    'Takes a shared lock on a name until the transaction ends.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/span_of_lease.sql

-- The duration of a lease. If the stored duration is zero, the argument otherwise counts; bounds
-- are those of _bounded.
create or replace function pgq._lease_span(span interval, otherwise interval default '30 s')
returns interval
language sql immutable parallel safe
return coalesce(nullif(pgq._bounded(span, pgq._limit('policy_years')), interval '0'), otherwise);
comment on function pgq._lease_span(interval, interval) is
    'The duration of a lease, within its bounds.';
$pgq_script$;
    execute $pgq_script$
-- sql/24_lock/try_lock.sql

-- Locks a name until the transaction ends, or returns false if another transaction holds the lock.
create or replace function pgq._try_lock(what text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.mutex m where m.what = _try_lock.what for update skip locked;
    return found;
end
$$;
comment on function pgq._try_lock(text) is
    'Locks a name until the transaction ends, or returns false: it never waits.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/anchor_rows.sql

-- The rows of pgq.anchor that stand for one choice of pgq._filter_anchors.
create or replace function pgq._anchor_rows(binding_id int, pattern text, choice jsonb)
returns setof pgq.anchor
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row pgq.anchor;
    v_piece jsonb;
    v_value jsonb;
begin
    v_row.binding_id := binding_id;
    v_row.number := 0;
    for v_piece in select distinct jsonb_array_elements(choice) loop
        v_value := v_piece -> 'value';
        v_row.number := v_row.number + 1;
        v_row.scope := v_piece ->> 'in';
        v_row.path := array(select jsonb_array_elements_text(v_piece -> 'path'));
        v_row.kind := v_piece ->> 'kind';
        v_row.field := pgq._field_hash(
            pattern, v_row.scope, array_to_string(v_row.path, E'\n'));
        v_row.size := case v_row.kind when 'prefix' then length(v_value #>> '{}') end;
        v_row.place := case v_row.kind
            when 'equal' then jsonb_hash_extended(v_value, v_row.field)
            when 'prefix' then hashtextextended((v_value #>> '{}') collate "C", v_row.field)
            when 'there' then v_row.field # 1
            when 'missing' then v_row.field # 2
            when 'several' then v_row.field # 3 end;
        v_row.area := case v_row.kind
            when 'range' then pgq._area(v_row.field, false,
                coalesce(pgq._number_place((v_value ->> 0)::numeric), -1e100),
                coalesce(pgq._number_place((v_value ->> 1)::numeric), 1e100))
            when 'text range' then pgq._area(v_row.field, true,
                coalesce(pgq._text_place(v_value ->> 0), 0),
                coalesce(pgq._text_place(v_value ->> 1), 1e100)) end;
        return next v_row;
    end loop;
end
$$;
comment on function pgq._anchor_rows(int, text, jsonb) is
    'The rows of pgq.anchor for one choice of conditions.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/area.sql

-- A range of a field in an index: the values on the x axis, the field on the y axis.
create or replace function pgq._area(field bigint, texts boolean, low float8,
    high float8 default null)
returns box
language sql immutable parallel safe
return box(point(low, ((field & 1125899906842623) * 2 + texts::int)::float8),
           point(coalesce(high, low), ((field & 1125899906842623) * 2 + texts::int)::float8));
comment on function pgq._area(bigint, boolean, float8, float8) is
    'A range of a field, or one value of it, as a box.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/field_hash.sql

-- Names a field of the filters of a topic pattern. A hash collision only costs an extra test.
create or replace function pgq._field_hash(pattern text, scope text, key text) returns bigint
language sql immutable parallel safe
return pg_catalog.hashtextextended(
    (scope || E'\n' || key || E'\n' || pattern) collate "C", 0);
comment on function pgq._field_hash(text, text, text) is
    'The hash of a field of the filters of a topic pattern.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/field_values.sql

-- The values of a field of the payload, with those in arrays. Perhaps more than a filter tests,
-- never fewer.
create or replace function pgq._field_values(paths jsonpath[], payload jsonb) returns jsonb[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select e.value
        from unnest(paths) p (path)
        cross join lateral jsonb_path_query(payload, p.path, silent => true) i (value)
        cross join lateral (
            select i.value
            union all
            select jsonb_path_query(i.value, '$[*][*][*][*]') where jsonb_typeof(i.value) = 'array'
        ) e);
end
$$;
comment on function pgq._field_values(jsonpath[], jsonb) is 'The values of a field of the payload.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/find_filter.sql

-- A filter in compiled form: from the cache, or compiled now (then its filter_id is null).
create or replace function pgq._find_filter(document jsonb, lane_keys text[]) returns pgq.filter
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
    if found then
        -- Decompress a large path once: otherwise each test of a message does it, 80 us for 64 kB.
        -- An array never holds compressed elements.
        if pg_column_size(v_filter.path) > 1000 then
            v_filter.path := (array[v_filter.path])[1];
        end if;
    else
        v_tree := pgq._filter_parse(document);
        v_filter.hash := v_hash;
        v_filter.document := document;
        v_filter.lane_keys := lane_keys;
        v_filter.scope := pgq._filter_reads(v_tree);
        v_filter.path := pgq._filter_path(v_tree);
        v_filter.equal := pgq._filter_equal(v_tree);
        v_filter.lane_final := false;
        if lane_keys is not null then
            select pgq._filter_path(w.tree, 'message'), w.final
            into v_filter.lane_path, v_filter.lane_final
            from pgq._filter_project(
                v_tree, array(select k from unnest(lane_keys) k where k not like '#%')) w;
            v_filter.lane_hashes := pgq._lane_hashes(v_tree, lane_keys);
        end if;
    end if;
    return v_filter;
end
$$;
comment on function pgq._find_filter(jsonb, text[]) is 'A filter in compiled form, or QU004.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/hashed_key.sql

-- Which of the lane keys is hashed; null: none.
create or replace function pgq._hashed_key(lane_keys text[]) returns int
language sql immutable parallel safe
return case '#'
    when left(lane_keys[1], 1) then 1
    when left(lane_keys[2], 1) then 2
    when left(lane_keys[3], 1) then 3
    when left(lane_keys[4], 1) then 4 end;
comment on function pgq._hashed_key(text[]) is 'Which of the lane keys is hashed.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/is_received.sql

-- Whether one of these queues receives such a message, by its current bindings.
create or replace function pgq._is_received(queues int[], message pgq.message) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select from pgq.binding b
        where b.queue_id = any (queues)
          and (b.regex is null and b.pattern = message.topic or message.topic ~ b.regex)
          and pgq._matches(b.path, b.scope, message, 1, pgq.now()));
end
$$;
comment on function pgq._is_received(int[], pgq.message) is
    'Whether one of these queues receives a message with these properties.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/keep_filter.sql

-- A filter in compiled form, kept in the cache for the next time.
create or replace function pgq._keep_filter(queue pgq.queue, document jsonb) returns pgq.filter
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._find_filter(document, queue.lane_keys);
begin
    if v_filter.filter_id is not null then
        return v_filter;
    end if;
    -- Two sessions may store the same filter at once: both rows are correct, and neither session
    -- waits. Each queue has its own limit, so that no queue can fill the cache of others.
    if (select count(*) < pgq._limit('filters') from pgq.filter f
        where f.queue_id = queue.queue_id)
    then
        insert into pgq.filter (queue_id, hash, document, lane_keys, scope, path, equal,
                                lane_path, lane_final, lane_hashes)
        values (queue.queue_id, v_filter.hash, v_filter.document, v_filter.lane_keys,
                v_filter.scope, v_filter.path, v_filter.equal, v_filter.lane_path,
                v_filter.lane_final, v_filter.lane_hashes)
        returning * into v_filter;
    end if;
    return v_filter;
end
$$;
comment on function pgq._keep_filter(pgq.queue, jsonb) is
    'Compiles a filter and stores it for later claims.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/lane_hash.sql

-- The hash of a value of a hashed lane key. Null and missing ([]) count as one value. A value that
-- is not a scalar ({}) has the hash 0, which every filter scans. The parameter occurs once in the
-- body, so that the planner can inline the function: a call takes 2 us.
create or replace function pgq._lane_hash(value jsonb) returns int
language sql immutable parallel safe
return coalesce(nullif(
    (jsonb_hash_extended(coalesce(nullif(value, '[]'), 'null'), 0) & 1073741823)::int,
    (jsonb_hash_extended('{}', 0) & 1073741823)::int) + 1, 0);
comment on function pgq._lane_hash(jsonb) is 'The hash of a value of a hashed lane key.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/lane_hashes.sql

-- The hashes that a match of a filter can have; null: any, or no lane key is hashed.
create or replace function pgq._lane_hashes(tree jsonb, lane_keys text[]) returns int[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key constant text := substr(lane_keys[pgq._hashed_key(lane_keys)], 2);
    v_values constant jsonb := pgq._filter_values(tree, v_key);
begin
    if v_values is null then
        return null;
    end if;
    return array(
        select distinct pgq._lane_hash(v.value) from jsonb_array_elements(v_values) v (value)
        union select 0 where v_key like 'payload.%'
        order by 1);
end
$$;
comment on function pgq._lane_hashes(jsonb, text[]) is
    'The hashes that the hashed lane key of a match can have.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/number_place.sql

-- A number as it is stored in an index: rounded, and kept in the range for which a box has a size.
create or replace function pgq._number_place(value numeric) returns float8
language sql immutable parallel safe
return case
    when value is null then null  -- least() and greatest() skip it
    when abs(value) < 1e-100 then 0
    else least(greatest(value, -1e100), 1e100)::float8 end;
comment on function pgq._number_place(numeric) is 'A float that sorts like the given number.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/set_anchors.sql

-- Makes the anchors of a binding. It prefers values that the fewest other filters have as anchors:
-- a value that all filters test would find all of them.
create or replace function pgq._set_anchors(binding pgq.binding) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_most constant int := 1000;
    v_choice jsonb;
    v_count int := 0;
begin
    delete from pgq.anchor a where a.binding_id = binding.binding_id;
    if binding.filter is not null then
        select c.choice into v_choice
        from jsonb_array_elements(pgq._filter_anchors(pgq._filter_parse(binding.filter)))
            with ordinality as c (choice, position)
        cross join lateral (
            select sum(case
                       when r.kind = 'several' then 0
                       when r.area is not null then (
                           select count(*) from (
                               select from pgq.anchor a where a.area && r.area limit v_most) f)
                       when r.kind in ('there', 'missing') then (
                           select count(*) from (
                               select from pgq.anchor a where a.field = r.field limit v_most) f)
                       else (
                           select count(*) from (
                               select from pgq.anchor a where a.place = r.place limit v_most) f)
                       end) as others,
                   max(array_position('{equal,prefix,range,text range,there,missing}', r.kind))
                       as weakest
            from pgq._anchor_rows(null, binding.pattern, c.choice) r
        ) s
        order by s.others, s.weakest, c.position limit 1;
        insert into pgq.anchor
        select * from pgq._anchor_rows(binding.binding_id, binding.pattern, v_choice);
        get diagnostics v_count = row_count;
    end if;
    update pgq.binding b set anchors = v_count
    where b.binding_id = binding.binding_id and b.anchors <> v_count;
end
$$;
comment on function pgq._set_anchors(pgq.binding) is 'Makes the anchors of a binding.';
$pgq_script$;
    execute $pgq_script$
-- sql/25_filter_cache/text_place.sql

-- Strings as numbers in the same order, by their first six bytes.
create or replace function pgq._text_place(value text) returns float8
language sql immutable parallel safe
return ('x' || rpad(encode(substr(convert_to(value, 'UTF8'), 1, 6), 'hex'), 12, '0'))::bit(48)
    ::bigint::float8;
comment on function pgq._text_place(text) is 'A number that sorts like the beginning of a string.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/hash_lanes.sql

-- A queue has too many lanes: from now on the lane key with the most values is hashed. Existing
-- lanes become stale, and maintain() empties them. The publisher that gets the lock on the queue's
-- row does it for all; the others do not wait.
create or replace function pgq._hash_lanes(queue_id int, lane_keys text[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key int;
begin
    perform from pgq.queue q
    where q.queue_id = _hash_lanes.queue_id and q.lane_keys = _hash_lanes.lane_keys
      and not q.lanes_full
    for update skip locked;
    if not found then
        return;
    end if;
    -- Not if lanes have limits or take turns: these count all values of a hashed key as one lane.
    if pgq._hashed_key(lane_keys) is null and not exists (
        select from pgq.queue_limit l
        where l.queue_id = _hash_lanes.queue_id
          and (l.fair or num_nonnulls(l.lane_max_leased, l.lane_step) > 0))
    then
        select u.i::int into strict v_key
        from unnest(lane_keys) with ordinality u (key, i)
        order by (select count(distinct l.label -> (u.i - 1)::int) from pgq.lane l
                  where l.queue_id = _hash_lanes.queue_id
                    and l.lane_keys = _hash_lanes.lane_keys) desc, u.i
        limit 1;
        lane_keys[v_key] := '#' || lane_keys[v_key];
        update pgq.queue q set lane_keys = _hash_lanes.lane_keys
        where q.queue_id = _hash_lanes.queue_id;
    else
        update pgq.queue q set lanes_full = true where q.queue_id = _hash_lanes.queue_id;
        raise warning 'queue % has more than % lanes', queue_id, pgq._limit('lanes')
            using hint = 'One lane key of a queue may have any number of values, the others few: '
                'messages with new values share one overflow lane and are tested one by one.';
    end if;
end
$$;
comment on function pgq._hash_lanes(int, text[]) is
    'Hashes the values of a lane key, because there are too many lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/in_lanes.sql

-- Whether a ready row may hold a match, by its lane and its hash. The planner inlines it.
create or replace function pgq._in_lanes(lanes pgq._lanes, lane_id int, hash int) returns boolean
language sql immutable parallel safe
return lanes.kept is null or lane_id is null
    or lane_id = any (lanes.kept)
        and (lanes.hashes is null or hash is null or hash = any (lanes.hashes)
             or lane_id = any (lanes.stale));
comment on function pgq._in_lanes(pgq._lanes, int, int) is 'Whether a ready row may hold a match.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/keep_lanes.sql

-- Which lanes of a queue can hold a match (null: any ready row can), and in which of them every
-- message matches. The overflow lane, and lanes of other keys than the queue has now, can hold any.
create or replace function pgq._keep_lanes(queue pgq.queue, filter pgq.filter)
returns pgq._lanes
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lanes pgq._lanes;
begin
    v_lanes.by_lane := false;
    if queue.lane_keys is null then
        return v_lanes;
    end if;
    select coalesce(array_agg(l.lane_id), '{}'),
           coalesce(array_agg(l.lane_id) filter (where not l.mixed and filter.lane_final), '{}'),
           coalesce(array_agg(l.lane_id) filter (where l.stale), '{}')
    into v_lanes.kept, v_lanes.sure, v_lanes.stale
    from (
        select k.lane_id, k.document, k.lane_keys <> queue.lane_keys as stale,
               k.label is null or k.lane_keys <> queue.lane_keys as mixed
        from pgq.lane k where k.queue_id = queue.queue_id
    ) l
    where l.mixed or jsonb_path_match(l.document, filter.lane_path, '{}', true);
    v_lanes.hashes := filter.lane_hashes;
    -- One scan per lane pays off while lanes are few, and it misses rows that have no lane. With
    -- hashes only stale lanes are scanned, which maintain() empties.
    v_lanes.by_lane := not queue.unlaned_rows and case
        when v_lanes.hashes is null then cardinality(v_lanes.kept) <= 32
        else cardinality(v_lanes.stale) <= 2000 end;
    return v_lanes;
end
$$;
comment on function pgq._keep_lanes(pgq.queue, pgq.filter) is
    'The lanes of a queue that can hold a match for a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/lane.sql

-- The lane with that label, made if new. Too many lanes, too long a label, or a value that is not a
-- scalar: the overflow lane.
create or replace function pgq._lane(
    queue_id int, lane_keys text[], lanes_full boolean, label jsonb
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_label jsonb := case when pg_column_size(label) <= 512 and not label @> '[{}]' then label end;
    v_lane_id int;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- An old snapshot may show a lane that has been removed: 40001 then. Locks one lane at a
        -- time, because maintain() may hold one and wait for another.
        for v_lane_id in
            select l.lane_id from pgq.lane l
            where l.queue_id = _lane.queue_id and l.lane_keys = _lane.lane_keys
              and (l.label = v_label or l.label is null) and l.idle is null
        loop
            begin
                perform from pgq.lane l where l.lane_id = v_lane_id for share;
                raise exception using errcode = 'QU000';
            exception
                when sqlstate 'QU000' then
                    null;  -- the lock is released
            end;
        end loop;
    end if;
    if v_label is not null then
        select l.lane_id into v_lane_id from pgq.lane l
        where l.queue_id = _lane.queue_id and l.label = v_label and l.lane_keys = _lane.lane_keys
          and l.idle is null
        order by l.lane_id limit 1;
        if found then
            return v_lane_id;
        end if;
        if lanes_full or (
            select count(*) >= pgq._limit('lanes') from pgq.lane l
            where l.queue_id = _lane.queue_id and l.lane_keys = _lane.lane_keys)
        then
            if not lanes_full then
                perform pgq._hash_lanes(queue_id, lane_keys);
            end if;
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
    insert into pgq.lane (queue_id, lane_keys, label, document)
    values (_lane.queue_id, _lane.lane_keys, v_label,
            case when v_label is not null then pgq._lane_document(_lane.lane_keys, v_label) end)
    returning lane_id into v_lane_id;
    return v_lane_id;
end
$$;
comment on function pgq._lane(int, text[], boolean, jsonb) is 'The lane with that label.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/lane_document.sql

-- A label as a message, for filters. Each key on the path to a field has an object, even if the
-- field is missing: conditions that test for missing fields read it.
create or replace function pgq._lane_document(lane_keys text[], label jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_document jsonb := '{"msg": {}, "headers": {}, "payload": {}}';
    v_path text[];
    v_value jsonb;
begin
    for i in 1 .. cardinality(lane_keys) loop
        continue when lane_keys[i] like '#%';
        v_path := case when lane_keys[i] like '%.%' then string_to_array(lane_keys[i], '.')
                  else array['headers', lane_keys[i]] end;
        for j in 2 .. cardinality(v_path) - 1 loop
            if v_document #> v_path[:j] is null then
                v_document := jsonb_set(v_document, v_path[:j], '{}');
            end if;
        end loop;
        v_value := label -> (i - 1);
        if v_value <> '[]' then
            v_document := jsonb_set(v_document, v_path, v_value);
        end if;
    end loop;
    return v_document;
end
$$;
comment on function pgq._lane_document(text[], jsonb) is 'A label in the form of a message.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/lane_field.sql

-- The value of a lane key in a message: a scalar, [] if it is missing, {} if it is an object, if an
-- array is there or on the path, or if a policy would read a dotted key ("a.b") as this one (a.b).
create or replace function pgq._lane_field(payload jsonb, key text) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_path constant text[] := string_to_array(substr(key, 9), '.');
    v_last constant int := cardinality(v_path);
    v_value jsonb := payload;
begin
    for i in 1 .. v_last loop
        if jsonb_typeof(v_value) <> 'object' then
            return case jsonb_typeof(v_value) when 'array' then '{}'::jsonb else '[]' end;
        end if;
        for j in i + 1 .. v_last loop
            if v_value ? array_to_string(v_path[i:j], '.') then
                return '{}'::jsonb;
            end if;
        end loop;
        v_value := v_value -> v_path[i];
        if v_value is null then
            return '[]'::jsonb;
        end if;
    end loop;
    return case when jsonb_typeof(v_value) in ('array', 'object') then '{}' else v_value end;
end
$$;
comment on function pgq._lane_field(jsonb, text) is 'The value of a lane key in a payload.';

-- The planner inlines it: a header costs no more than reading it.
create or replace function pgq._lane_value(m pgq.message, key text) returns jsonb
language sql stable parallel safe
return case
    when key is null or key like '#%' then '[]'
    when strpos(key, '.') = 0 then coalesce(m.headers -> key, '[]')
    when starts_with(key, 'payload.') then pgq._lane_field(m.payload, key)
    else coalesce(to_jsonb(
        case key
            when 'msg.topic' then m.topic
            when 'msg.sender' then m.sender
            when 'msg.recipient' then m.recipient
            when 'msg.reply_to' then m.reply_to
            when 'msg.correlation_id' then m.correlation_id
            when 'msg.group_key' then m.group_key end), 'null') end;
comment on function pgq._lane_value(pgq.message, text) is 'The value of a lane key in a message.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/lane_flow.sql

-- The number under which limits count a lane. Not its lane_id: a lane that is empty is removed
-- while its messages are leased, and two publishers may make the same lane twice.
create or replace function pgq._lane_flow(label jsonb) returns bigint
language sql immutable parallel safe
return case when label is null then 1 else hashtextextended(label::text, 0) end;
comment on function pgq._lane_flow(jsonb) is 'The number under which limits count a lane.';
$pgq_script$;
    execute $pgq_script$
-- sql/26_lane/lane_label.sql

-- The values of the lane keys in order; [] for one that is missing or hashed, {} for one that is
-- not a scalar.
create or replace function pgq._lane_label(m pgq.message, lane_keys text[]) returns jsonb
language sql stable parallel safe
return jsonb_build_array(
    pgq._lane_value(m, lane_keys[1]),
    pgq._lane_value(m, lane_keys[2]),
    pgq._lane_value(m, lane_keys[3]),
    pgq._lane_value(m, lane_keys[4]));
comment on function pgq._lane_label(pgq.message, text[]) is
    'The values that the messages of a lane share.';
$pgq_script$;
    execute $pgq_script$
-- sql/27_notify/wake.sql

-- Notifies the consumers that wait for a queue, if there are any.
create or replace function pgq._wake(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- An old snapshot may not show all waiters.
    if exists (select from pgq.waiter w
               where w.queue_id = _wake.queue_id and w.until > pgq.now())
       or current_setting('transaction_isolation') <> 'read committed'
    then
        -- PostgreSQL sends equal notifications of a transaction once, from version 19 on only to
        -- sessions that listen on the channel.
        perform pg_notify(q.channel, '') from pgq.queue q where q.queue_id = _wake.queue_id;
    end if;
end
$$;
comment on function pgq._wake(int) is 'Notifies the consumers that wait for a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/27_notify/wake_results.sql

-- Notifies the sessions that wait for the end of one of these messages, if there are any.
create or replace function pgq._wake_results(ids int8multirange) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_notify('pgq_result', w.message_id::text)
    from unnest(_wake_results.ids) r
    join pgq.result_waiter w on w.message_id >= lower(r) and w.message_id < upper(r)
    where w.until > pgq.now();
end
$$;
comment on function pgq._wake_results(int8multirange) is
    'Notifies the sessions that wait for the end of one of these messages.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/add_hashed.sql

-- Makes ready rows from ids in a lane with a hashed key: ids of one hash may share rows of at most
-- size ids.
create or replace function pgq._add_hashed(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], hashes int[], size int,
    suspect boolean default false
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select count(distinct h) > cardinality(_add_hashed.ids) / 2 from unnest(hashes) h) then
        -- Most values belong to a single message: grouping would cost more than it saves.
        insert into pgq.ready (
            queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
            failures, ids)
        select _add_hashed.queue_id, _add_hashed.lane_id,
               pgq._rank(_add_hashed.priority, back, u.id), _add_hashed.attempt, 1,
               pg_current_xact_id(), _add_hashed.expires_at, _add_hashed.grouped,
               _add_hashed.suspect, u.hash, _add_hashed.failures,
               int8multirange(int8range(u.id, u.id + 1))
        from unnest(_add_hashed.ids, hashes) u (id, hash);
        return;
    end if;
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
        failures, ids)
    select _add_hashed.queue_id, _add_hashed.lane_id,
           pgq._rank(_add_hashed.priority, back, min(s.id)), _add_hashed.attempt, count(*),
           pg_current_xact_id(), _add_hashed.expires_at, _add_hashed.grouped,
           _add_hashed.suspect, s.hash, _add_hashed.failures,
           range_agg(int8range(s.id, s.id + 1))
    from (
        select u.id, u.hash, row_number() over (partition by u.hash order by u.id) - 1 as i
        from unnest(_add_hashed.ids, hashes) u (id, hash)
    ) s
    group by s.hash, s.i / _add_hashed.size;
end
$$;
comment on function pgq._add_hashed(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int[], int, boolean) is
    'Makes ready rows from ids in a lane with a hashed key.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/add_laned.sql

-- Makes ready rows from sorted ids that share a label, in the lane of the label; null: the queue
-- has no lanes.
create or replace function pgq._add_laned(
    queue pgq.queue, label jsonb, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], hashes int[], suspect boolean default false
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lane_id int;
begin
    if label is not null then
        v_lane_id := pgq._lane(queue.queue_id, queue.lane_keys, queue.lanes_full, label);
    end if;
    if hashes[1] is null or hashes[1] = all (hashes) then
        perform pgq._add_ready(queue.queue_id, v_lane_id, priority, back, attempt, expires_at,
                               failures, grouped, ids, queue.set_size, suspect, hashes[1]);
    else
        perform pgq._add_hashed(queue.queue_id, v_lane_id, priority, back, attempt, expires_at,
                                failures, grouped, ids, hashes, queue.set_size, suspect);
    end if;
end
$$;
comment on function pgq._add_laned(
    pgq.queue, jsonb, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int[], boolean) is
    'Makes ready rows from sorted ids in the lane of their label.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/add_range.sql

-- Makes ready rows of at most size ids from low to high, which share everything else.
create or replace function pgq._add_range(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, low bigint, high bigint, size int,
    suspect boolean default false, hash int default null
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
        failures, ids)
    select _add_range.queue_id, _add_range.lane_id, pgq._rank(_add_range.priority, back, i),
           _add_range.attempt, least(_add_range.size, high - i + 1), pg_current_xact_id(),
           _add_range.expires_at, _add_range.grouped, _add_range.suspect, _add_range.hash,
           _add_range.failures,
           int8multirange(int8range(i, least(i + _add_range.size, high + 1)))
    from generate_series(low, high, _add_range.size) i;
end
$$;
comment on function pgq._add_range(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint, bigint, int, boolean, int) is
    'Makes ready rows from a range of ids with equal properties.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/add_ready.sql

-- Makes ready rows of at most size ids from sorted ids that share everything else.
create or replace function pgq._add_ready(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], size int,
    suspect boolean default false, hash int default null
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
                               grouped, v_low, v_high, size, suspect, hash);
        return;
    end if;
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
        failures, ids)
    select _add_ready.queue_id, _add_ready.lane_id,
           pgq._rank(_add_ready.priority, back, min(i)), _add_ready.attempt, count(*),
           pg_current_xact_id(), _add_ready.expires_at, _add_ready.grouped, _add_ready.suspect,
           _add_ready.hash,
           _add_ready.failures,
           range_agg(int8range(i, i + 1))
    from unnest(_add_ready.ids) with ordinality u (i, n)
    group by (n - 1) / _add_ready.size;
end
$$;
comment on function pgq._add_ready(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int, boolean, int) is
    'Makes ready rows from sorted ids with equal properties.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/enqueue.sql

-- Makes messages of the log ready (again): retries, delayed ones, replays. revive: their expiry is
-- ignored. back: they rank with the redeliveries, before first deliveries.
create or replace function pgq._enqueue(
    queue pgq.queue, ids int8multirange, attempt int, failures jsonb, grouped boolean,
    revive boolean default false, back boolean default true, suspect boolean default false
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A message that was replayed after its expiry does not expire again.
    v_replayed timestamptz := (jsonb_path_query_array(
        coalesce(failures, '[]'), '$[*] ? (@.outcome == "replay").at') ->> -1)::timestamptz;
    v_hashed text;
    v_group record;
    v_count int := 0;
begin
    if queue.dedup <> 'keep' and _enqueue.attempt = 0 then
        queue.set_size := 1;  -- a later message with the dedup key finds the row by its rank
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq._refuse_old_routing();
    end if;
    -- The caller may have read the queue before its transaction had an id, and before the queue got
    -- other lane keys: see pgq._mark_lanes.
    perform pg_current_xact_id();
    select q.lane_keys, q.lanes_full into queue.lane_keys, queue.lanes_full
    from pgq.queue q where q.queue_id = queue.queue_id;
    v_hashed := substr(queue.lane_keys[pgq._hashed_key(queue.lane_keys)], 2);
    for v_group in
        select m.priority,
               case when not revive and (v_replayed is null or m.expires_at > v_replayed) then
                   m.expires_at
               end as expires_at,
               case when queue.lane_keys is not null then
                   pgq._lane_label(m, queue.lane_keys)
               end as label,
               array_agg(m.id order by m.id) as ids,
               array_agg(case when v_hashed is not null then
                   pgq._lane_hash(pgq._lane_value(m, v_hashed)) end order by m.id) as hashes
        from unnest(_enqueue.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        group by 1, 2, 3
    loop
        perform pgq._add_laned(
            queue, v_group.label, v_group.priority, _enqueue.back, _enqueue.attempt,
            v_group.expires_at, _enqueue.failures, _enqueue.grouped, v_group.ids, v_group.hashes,
            _enqueue.suspect);
        v_count := v_count + cardinality(v_group.ids);
    end loop;
    if v_count < pgq._set_size(_enqueue.ids) then
        perform pgq._refuse_snapshot();
    end if;
    perform pgq._wake(queue.queue_id);
end
$$;
comment on function pgq._enqueue(
    pgq.queue, int8multirange, int, jsonb, boolean, boolean, boolean, boolean) is
    'Makes messages of the log ready (again).';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/held_by.sql

-- The messages that a queue holds, in whatever state.
create or replace function pgq._held_by(queue_id int) returns int8multirange
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(range_agg(h.ids), '{}')
        from (
            select r.ids from pgq.ready r where r.queue_id = _held_by.queue_id
            union all
            select s.ids from pgq.scheduled s where s.queue_id = _held_by.queue_id
            union all
            select l.ids from pgq.lease l where l.queue_id = _held_by.queue_id
            union all
            select int8multirange(int8range(d.message_id, d.message_id + 1))
            from pgq.letter d where d.queue_id = _held_by.queue_id
            union all
            select int8multirange(int8range(g.message_id, g.message_id + 1))
            from pgq.group_line g where g.queue_id = _held_by.queue_id
        ) h);
end
$$;
comment on function pgq._held_by(int) is 'The messages that a queue holds, in any state.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/record.sql

-- Records in the audit log what was done to messages of a queue by a caller without a lease, and
-- counts it.
create or replace function pgq._record(
    queue_id int, event text, attempt int, ids int8multirange, note text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.journal (at, queue_id, event, attempt, size, holder, client, error, ids)
    values (pgq.now(), _record.queue_id, _record.event, _record.attempt,
            pgq._set_size(_record.ids), nullif(current_setting('application_name'), ''),
            inet_client_addr(), note, _record.ids);
    insert into pgq.outcome (queue_id, event, size)
    values (_record.queue_id, _record.event, pgq._set_size(_record.ids));
end
$$;
comment on function pgq._record(int, text, int, int8multirange, text) is
    'Records an operation on messages of a queue by a caller without a lease.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/take_all_ready.sql

-- Takes the next ready rows of a queue, from a rank on, except those that another transaction has
-- locked. last: the rank to continue after; null at the end. Takes whole rows, which is a third of
-- the work of finding rows first and then cutting sets out of them.
create or replace function pgq._take_all_ready(
    queue_id int, low bigint, "rows" int, out sets pgq._withdrawn[], out last bigint)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
-- In the order of the index: a sort would read the whole backlog for each slice.
set enable_sort = off
set enable_bitmapscan = off
as $$
declare
    v_places tid[];
begin
    select array_agg(x.place), max(x.rank) into v_places, last
    from (
        select r.ctid as place, r.rank from pgq.ready r
        where r.queue_id = _take_all_ready.queue_id and r.rank >= low
        order by r.rank limit "rows" for update skip locked
    ) x;
    with gone as (
        delete from pgq.ready r where r.ctid = any (v_places)
        returning r.attempt, r.failures, r.grouped, r.size, r.ids
    )
    select array_agg(row(timestamptz '-infinity', s.*)::pgq._withdrawn) into sets
    from (
        select g.attempt, g.failures, g.grouped, sum(g.size)::int, range_agg(g.ids)
        from gone g group by 1, 2, 3
    ) s;
end
$$;
comment on function pgq._take_all_ready(int, bigint, int) is
    'Takes the next ready rows of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/take_ready.sql

-- Takes the given sets, at most n messages, out of ready rows and puts the rest of each row back.
-- Rows that another transaction has locked are skipped.
create or replace function pgq._take_ready(
    queue_id int, places tid[], sets int8multirange[], n bigint
) returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with locked as materialized (
            select r.ctid as place, r.* from pgq.ready r
            -- By ctid alone: with queue_id here, the planner would read the whole backlog.
            where r.ctid = any (places)
            for update skip locked
        ), counted as (
            select l.*, w.ids as wanted,
                   case when w.ids = l.ids then l.size else pgq._set_size(w.ids) end as count
            from locked l
            join unnest(places, sets) s (place, ids) on s.place = l.place
            cross join lateral (select s.ids * l.ids as ids) w
            where w.ids <> '{}' and l.queue_id = _take_ready.queue_id
        ), summed as (
            select c.*, sum(c.count) over (order by c.rank) - c.count as ahead from counted c
        ), taken as materialized (
            select s.*, f.took, case when f.took = s.wanted then s.count
                                else pgq._set_size(f.took) end as number
            from summed s
            cross join lateral (
                select case when n is null or s.ahead + s.count <= n then s.wanted
                       else pgq._first_ids(s.wanted, (n - s.ahead)::bigint) end as took) f
            where n is null or s.ahead < n
        ), gone as (
            delete from pgq.ready r where r.ctid = any (array(select t.place from taken t))
        ), rest as (
            insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                                   suspect, hash, unmatched_by, failures, ids)
            select t.queue_id, t.lane_id,
                   pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
                   t.size - t.number, pg_current_xact_id(), t.expires_at, t.grouped,
                   t.suspect, t.hash, t.unmatched_by, t.failures, t.ids - t.took
            from taken t where t.ids <> t.took
        )
        select timestamptz '-infinity', t.attempt, t.failures, t.grouped,
               sum(t.number)::int, range_agg(t.took)
        from taken t group by 2, 3, 4;
end
$$;
comment on function pgq._take_ready(int, tid[], int8multirange[], bigint) is
    'Takes messages out of ready rows.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/take_scheduled.sql

-- Takes the given sets, at most n messages, out of scheduled rows and puts the rest of each row
-- back. Rows that another transaction has locked are skipped.
create or replace function pgq._take_scheduled(
    queue_id int, places tid[], sets int8multirange[], n bigint
) returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with locked as materialized (
            select c.ctid as place, c.* from pgq.scheduled c
            where c.ctid = any (places)
            for update skip locked
        ), counted as (
            select l.*, w.ids as wanted, pgq._set_size(w.ids) as count
            from locked l
            join unnest(places, sets) s (place, ids) on s.place = l.place
            cross join lateral (select s.ids * l.ids as ids) w
            where w.ids <> '{}' and l.queue_id = _take_scheduled.queue_id
        ), summed as (
            select c.*, sum(c.count) over (order by c.due_at, c.place) - c.count as ahead
            from counted c
        ), taken as materialized (
            select s.*, case when n is null or s.ahead + s.count <= n then s.wanted
                        else pgq._first_ids(s.wanted, (n - s.ahead)::bigint) end as took
            from summed s where n is null or s.ahead < n
        ), gone as (
            delete from pgq.scheduled c where c.ctid = any (array(select t.place from taken t))
        ), rest as (
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            select t.queue_id, t.due_at, t.attempt, pgq._set_size(t.ids - t.took), t.grouped,
                   t.failures, t.ids - t.took
            from taken t where t.ids <> t.took
        )
        select t.due_at, t.attempt, t.failures, t.grouped, sum(pgq._set_size(t.took))::int,
               range_agg(t.took)
        from taken t group by 1, 2, 3, 4 order by 1;
end
$$;
comment on function pgq._take_scheduled(int, tid[], int8multirange[], bigint) is
    'Takes messages out of scheduled rows.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/tokens.sql

-- A token bucket is stored as the time when it will be full. Its size is the burst: a tenth of the
-- messages of its interval unless given.
create or replace function pgq._burst(rate text, burst int) returns int
language sql immutable parallel safe
return coalesce(burst, greatest(1, split_part(rate, '/', 1)::int / 10));
comment on function pgq._burst(text, int) is 'The size of a token bucket.';

create or replace function pgq._tokens(full_at timestamptz, step float8, burst int, now timestamptz)
returns int
language sql immutable parallel safe
return floor(burst - greatest(0, extract(epoch from full_at - now)::float8 / step) + 1e-6)::int;
comment on function pgq._tokens(timestamptz, float8, int, timestamptz) is
    'How many tokens a bucket has.';

create or replace function pgq._tokens_at(full_at timestamptz, step float8, burst int, n int)
returns timestamptz
language sql immutable parallel safe
return full_at - make_interval(secs => (burst - n) * step);
comment on function pgq._tokens_at(timestamptz, float8, int, int) is
    'When a bucket has n tokens.';
$pgq_script$;
    execute $pgq_script$
-- sql/28_ready/tokens_shards.sql

-- How the limits of a queue are cut into shards, which claims lock. There are fewer than 16 if the
-- limit is so small that a shard would have nothing.
create or replace function pgq._shards(limits pgq.queue_limit) returns int
language sql immutable parallel safe
return least(16, limits.max_leased, case when limits.step is not null then
    greatest(1, pgq._burst(limits.rate, limits.burst) / 10) end);
comment on function pgq._shards(pgq.queue_limit) is 'The number of shards of a limit.';

create or replace function pgq._shard_lane(shard int) returns bigint
language sql immutable parallel safe
return 16 + shard;
comment on function pgq._shard_lane(int) is 'The column lane of pgq.flow for a shard.';

create or replace function pgq._shard_permits(limits pgq.queue_limit, shards int, shard int)
returns int8multirange
language sql immutable parallel safe
return int8multirange(int8range(limits.max_leased::bigint * shard / shards,
                                limits.max_leased::bigint * (shard + 1) / shards));
comment on function pgq._shard_permits(pgq.queue_limit, int, int) is 'The permits of a shard.';

create or replace function pgq._shard_burst(burst int, shards int, shard int) returns int
language sql immutable parallel safe
return burst::bigint * (shard + 1) / shards - burst::bigint * shard / shards;
comment on function pgq._shard_burst(int, int, int) is 'The size of a shard''s token bucket.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/admit_heads.sql

-- Makes heads of ordering groups ready, or schedules those that are still delayed: by their
-- deliver_at, or by a time that was set since (due_at).
create or replace function pgq._admit_heads(
    queue pgq.queue, ids bigint[], failures jsonb, now timestamptz,
    due_at timestamptz default null
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_count int := 0;
begin
    for v_set in
        select case when d.at > now then d.at end as due_at, count(*)::int as size,
               range_agg(int8range(m.id, m.id + 1)) as ids
        from unnest(_admit_heads.ids) i join pgq.message m on m.id = i
        cross join lateral (
            select coalesce(_admit_heads.due_at, nullif(m.deliver_at, 'infinity')) as at) d
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
comment on function pgq._admit_heads(pgq.queue, bigint[], jsonb, timestamptz, timestamptz) is
    'Makes heads of ordering groups ready, or schedules those that are still delayed.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/advance_group.sql

-- Makes the next message of the group backlog the head, after the old head has ended. Returns it
-- for the caller to admit; null if there is none. held: another transaction holds the group, and
-- nothing was changed.
create or replace function pgq._advance_group(
    queue_id int, group_key text, message_id bigint,
    out held boolean, out next_id bigint, out failures jsonb, out due_at timestamptz)
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
    returning l.message_id, l.failures, l.due_at into next_id, failures, due_at;
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
    'Makes the next message of a group''s backlog the head of the group.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/advance_groups.sql

-- The heads with these ids have ended: the next messages of their groups become heads.
create or replace function pgq._advance_groups(
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
        -- A publisher may hold the group and be about to add to its backlog. An ack does not wait
        -- for it: it stores a deferred advance, for a claim after the publisher's commit.
        v_next := pgq._advance_group(queue.queue_id, v_message.group_key, v_message.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (queue.queue_id, v_message.group_key, v_message.id);
        elsif num_nonnulls(v_next.failures, v_next.due_at) > 0 then
            perform pgq._admit_heads(
                queue, array[v_next.next_id], v_next.failures, now, v_next.due_at);
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
    'Makes the next message of each group its head, after the old head has ended.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/advance_lease.sql

-- Messages of groups that a lease held were ended: the next messages become heads. If the lease
-- holds the next message of a group too (runs), this message becomes the head and stays leased.
create or replace function pgq._advance_lease(
    queue pgq.queue, ended pgq.lease, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_found record;
    v_head record;
    v_done bigint[] := '{}';
begin
    if not ended.runs then
        perform pgq._advance_groups(queue, ended.ids, now);
        return;
    end if;
    select count(*) as size, array_agg(h.group_key) filter (where h.message_id = m.id) as keys
    into v_found
    from unnest(ended.ids) r
    join pgq.message m on m.id >= lower(r) and m.id < upper(r)
    left join pgq.group_head h on h.queue_id = queue.queue_id and h.group_key = m.group_key;
    if v_found.size < ended.size then
        perform pgq._refuse_snapshot();
    end if;
    for v_head in
        select h.group_key, h.message_id, n.id as next_id
        from pgq.group_head h
        left join (
            select m.group_key, min(m.id) as id from pgq.lease l cross join unnest(l.ids) r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            where l.lease_id = ended.lease_id and l.part = ended.part group by 1
        ) n on n.group_key = h.group_key
        where h.queue_id = queue.queue_id and h.group_key = any (v_found.keys)
        order by h.group_key
    loop
        if v_head.next_id is null then
            v_done := v_done || v_head.message_id;
        else
            -- Waits for a publisher of the group, unlike other acks: a deferred advance could not
            -- say that the next message is leased. In the order of keys, as publishers do.
            update pgq.group_head h set message_id = v_head.next_id
            where h.queue_id = queue.queue_id and h.group_key = v_head.group_key;
        end if;
    end loop;
    perform pgq._advance_groups(queue, pgq._set_of(v_done), now);
end
$$;
comment on function pgq._advance_lease(pgq.queue, pgq.lease, timestamptz) is
    'Advances the groups of messages of a lease that were ended.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/backfill.sql

-- Adds messages that the log still has to a new subscription. The caller has locked publishers out.
create or replace function pgq._backfill(
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
        return;  -- an archive delivers nothing, and the log has the messages
    end if;
    -- Finished messages become unfinished again: their eras must not be truncated meanwhile.
    perform pgq._share_lock('era');
    select min(m.id), max(m.id) into v_low, v_high from pgq.message m;
    v_low := greatest(v_low, since_id);
    -- Messages that the queue already holds by another binding are not added.
    v_held := pgq._held_by(queue.queue_id);
    if queue.journal = 'all' then
        select coalesce(range_agg(j.ids), '{}') into v_done from pgq.journal j
        where j.queue_id = queue.queue_id and j.event in (
            'ack', 'discard', 'expire', 'cancel', 'purge', 'move', 'replace');
    end if;
    while v_low <= v_high loop
        for v_set in
            -- Messages of ordering groups all together: their order is that of their ids.
            select case when m.deliver_at > v_now and m.group_key is null then m.deliver_at end
                       as due_at,
                   m.group_key is not null as grouped, array_agg(m.id order by m.id) as ids
            from pgq.message m
            where m.id >= v_low and m.id < v_low + 100000
              and (since is null or m.published_at >= since)
              and m.deliver_at is distinct from 'infinity'
              and (m.expires_at is null or m.expires_at > v_now)
              and (m.topic = binding.pattern and binding.regex is null or m.topic ~ binding.regex)
              and pgq._matches(binding.path, binding.scope, m, 1, v_now)
              and not v_held @> m.id
              -- Messages that it has finished by another binding are not added either. If acks are
              -- not recorded, a message counts as finished if a binding that existed at its
              -- publication matches it.
              and not (coalesce(v_done @> m.id, true) and exists (
                  select from pgq.binding b
                  where b.queue_id = queue.queue_id and b.binding_id <> binding.binding_id
                    and (v_done is not null or b.created_at <= m.published_at)
                    and (m.topic = b.pattern and b.regex is null or m.topic ~ b.regex)
                    and pgq._matches(b.path, b.scope, m, 1, v_now)))
            group by 1, 2
        loop
            if v_set.grouped then
                perform pgq._rejoin_groups(queue, v_set.ids, null, null, v_now);
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
    'Adds messages that the log still has to a new subscription.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/deliver.sql

-- Delivers messages of the log to a queue for the first time: into ready rows, or scheduled rows if
-- they are delayed. Returns the messages of ordering groups, for the caller to pass to _join_queue.
create or replace function pgq._deliver(queue pgq.queue, ids bigint[], now timestamptz)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hashed text := substr(queue.lane_keys[pgq._hashed_key(queue.lane_keys)], 2);
    -- A hashed key alone: all messages have the same label, and need not be grouped by it.
    v_label jsonb := case when v_hashed is not null and cardinality(queue.lane_keys) = 1 then
        '[[], [], [], []]'::jsonb end;
    v_set record;
    v_grouped bigint[] := '{}';
begin
    for v_set in
        select m.group_key is not null as grouped,
               case when m.group_key is null then m.priority end as priority,
               case when m.group_key is null then m.expires_at end as expires_at,
               case when m.group_key is null and m.deliver_at > now then m.deliver_at end as due_at,
               case when m.group_key is null and queue.lane_keys is not null
                    and v_label is null then
                   pgq._lane_label(m, queue.lane_keys)
               end as label,
               array_agg(m.id order by m.id) as ids,
               array_agg(case when v_hashed is not null then
                   pgq._lane_hash(pgq._lane_value(m, v_hashed)) end order by m.id) as hashes
        from unnest(_deliver.ids) i join pgq.message m on m.id = i
        group by 1, 2, 3, 4, 5
    loop
        if v_set.grouped then
            v_grouped := v_set.ids;
        elsif v_set.due_at is not null then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, ids)
            values (queue.queue_id, v_set.due_at, 0, cardinality(v_set.ids),
                    pgq._set_of(v_set.ids));
        else
            perform pgq._add_laned(
                queue, coalesce(v_set.label, v_label), v_set.priority, false, 0, v_set.expires_at,
                null, false, v_set.ids, v_set.hashes);
        end if;
    end loop;
    return v_grouped;
end
$$;
comment on function pgq._deliver(pgq.queue, bigint[], timestamptz) is
    'Delivers messages to a queue for the first time.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/join_groups.sql

-- Puts messages into their ordering groups, in order. If a group has no head, its first message
-- becomes the head and is returned. The others wait in the group backlog.
create or replace function pgq._join_groups(
    queue_id int, ids bigint[], failures jsonb, due_at timestamptz default null)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_head bigint;
    v_heads bigint[] := '{}';
begin
    -- In the order of the keys, so that two publishers with the same groups cannot deadlock. A
    -- publisher that uses a group holds it until it commits: the order of the group is then known.
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
            insert into pgq.group_line (queue_id, group_key, message_id, failures, due_at)
            values (_join_groups.queue_id, v_message.group_key, v_message.id,
                    _join_groups.failures, _join_groups.due_at);
        end if;
    end loop;
    return v_heads;
end
$$;
comment on function pgq._join_groups(int, bigint[], jsonb, timestamptz) is
    'Puts messages into their ordering groups and returns those that are heads.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/join_queue.sql

-- Puts messages of ordering groups into a queue.
create or replace function pgq._join_queue(queue pgq.queue, ids bigint[], now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._admit_heads(
        queue, pgq._join_groups(queue.queue_id, ids, null), null, now);
end
$$;
comment on function pgq._join_queue(pgq.queue, bigint[], timestamptz) is
    'Puts messages of ordering groups into a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/join_queues.sql

-- The same for several queues; queues and ids are parallel arrays. In the order of queue ids, so
-- that two batches cannot deadlock.
create or replace function pgq._join_queues(queues int[], ids bigint[], now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
begin
    for v_queue in
        select q.* from pgq.queue q where q.queue_id = any (queues) order by q.queue_id
    loop
        perform pgq._join_queue(v_queue, array(
            select g.id from unnest(queues, _join_queues.ids) g (queue_id, id)
            where g.queue_id = v_queue.queue_id), now);
    end loop;
end
$$;
comment on function pgq._join_queues(int[], bigint[], timestamptz) is
    'Puts messages of ordering groups into several queues.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/rejoin_groups.sql

-- Puts messages that return to a queue into their ordering groups: as the head if the group has no
-- other head now, otherwise into the group backlog. Deletes deferred advances from these messages.
create or replace function pgq._rejoin_groups(
    queue pgq.queue, ids bigint[], failures jsonb, due_at timestamptz, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.group_stall s
    where s.queue_id = queue.queue_id and s.message_id = any (_rejoin_groups.ids);
    perform pgq._admit_heads(
        queue, pgq._join_groups(queue.queue_id, ids, failures, due_at), failures, now, due_at);
end
$$;
comment on function pgq._rejoin_groups(
    pgq.queue, bigint[], jsonb, timestamptz, timestamptz) is
    'Puts messages that return to a queue into their ordering groups.';
$pgq_script$;
    execute $pgq_script$
-- sql/29_group/return_runs.sql

-- Returns failed or released messages of a lease that holds runs of groups. Later messages of the
-- same groups also leave the lease and return to the group backlog; no attempt is counted for them.
-- A failed or released message that is not the head of its group returns to the backlog, too. The
-- first messages of each group, at most "most", keep their failures, so that each is delivered
-- alone. Returns the remaining heads, which the caller retries or buries.
create or replace function pgq._return_runs(
    ended pgq.lease, failures jsonb, delay interval, now timestamptz, most int default 2147483647
) returns pgq.lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_due timestamptz := case when delay > interval '0' then now + delay end;
    v_found record;
    v_behind int8multirange;
begin
    with member as materialized (
        select m.id, m.group_key, coalesce(h.message_id = m.id, false) as is_head,
               row_number() over (partition by m.group_key order by m.id) as place
        from unnest(ended.ids) r join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        left join pgq.group_head h on h.queue_id = ended.queue_id and h.group_key = m.group_key
    ), behind as materialized (
        select m.id, m.group_key from pgq.lease l cross join unnest(l.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        join member e on e.group_key = m.group_key and e.place = 1 and m.id > e.id
        where l.lease_id = ended.lease_id and l.part = ended.part
    ), line as (
        insert into pgq.group_line (queue_id, group_key, message_id, failures, due_at)
        select ended.queue_id, e.group_key, e.id,
               case when e.place <= most then _return_runs.failures end, v_due
        from member e where not e.is_head
        union all
        select ended.queue_id, b.group_key, b.id, null, null from behind b
    )
    select count(*) as size,
           coalesce(range_agg(int8range(e.id, e.id + 1)) filter (where e.is_head), '{}') as heads,
           (select range_agg(int8range(b.id, b.id + 1)) from behind b) as behind
    into v_found from member e;
    if v_found.size < ended.size then
        perform pgq._refuse_snapshot();
    end if;
    v_behind := v_found.behind;
    if v_behind is not null then
        delete from pgq.lease l
        where l.lease_id = ended.lease_id and l.part = ended.part and l.ids <@ v_behind;
        update pgq.lease l set ids = l.ids - v_behind, size = pgq._set_size(l.ids - v_behind)
        where l.lease_id = ended.lease_id and l.part = ended.part;
        insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                                 client, ids)
        values (now, ended.queue_id, 'release', ended.attempt, pgq._set_size(v_behind),
                ended.lease_id, ended.claimed_at, ended.holder, ended.client, v_behind);
        insert into pgq.outcome (queue_id, event, size)
        values (ended.queue_id, 'release', pgq._set_size(v_behind));
    end if;
    ended.ids := v_found.heads;
    ended.size := pgq._set_size(ended.ids);
    return ended;
end
$$;
comment on function pgq._return_runs(pgq.lease, jsonb, interval, timestamptz, int) is
    'Returns messages after failed or released ones to the backlogs of their groups.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/addressed_to.sql

-- The filter for messages to one recipient or to everybody.
create or replace function pgq.addressed_to(recipient text) returns jsonb
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
    'A filter for messages that are addressed to the recipient, or to no recipient (broadcast). '
    'Null selects everything.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/alter_queue.sql

-- Changes the given parts of a policy and keeps those that are null.
create or replace function pgq.alter_queue(
    queue text,
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
    max_leased int default null,
    rate text default null,
    burst int default null,
    lane_max_leased int default null,
    lane_rate text default null,
    lane_burst int default null,
    fair boolean default null,
    max_lease interval default null,
    dedup text default null,
    caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', alter_queue.queue);
    v_before pgq.queue;
    v_limits pgq.queue_limit;
begin
    -- Lock first: two changes of one queue must not overwrite each other.
    select q.* into strict v_queue from pgq.queue q
    where q.queue_id = v_queue.queue_id for update;
    v_before := v_queue;
    if alter_queue.lane_keys is not null then
        v_queue.auto_lanes := alter_queue.lane_keys = '{auto}';
        v_queue.lane_keys := pgq._lane_keys(alter_queue.lane_keys, v_before.lane_keys);
    end if;
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
    v_queue.max_lease := coalesce(alter_queue.max_lease, v_queue.max_lease);
    v_queue.dedup := coalesce(alter_queue.dedup, v_queue.dedup);
    perform pgq._check_policy(v_queue);
    v_limits := pgq._limits(
        v_queue, max_leased, rate, burst, lane_max_leased, lane_rate, lane_burst, fair);
    if v_queue.limited or v_limits.queue_id is not null then
        perform pgq._set_limits(v_queue.queue_id, v_limits);
    end if;
    v_queue.limited := v_limits.queue_id is not null;

    -- Ready rows keep their lanes. From now on a lane of other keys can contain any message, and
    -- claims scan rows without a lane until none is left. So this call changes no message, however
    -- many there are, and a publisher that still uses the old keys does no harm.
    if v_before.lane_keys is distinct from v_queue.lane_keys then
        v_queue.lanes_full := false;
        v_queue.unlaned_rows := v_queue.unlaned_rows or v_before.lane_keys is null;
        v_queue.unlaned_xid := null;
        v_queue.unlaned_rank := null;
    end if;
    update pgq.queue q
    set lane_keys = v_queue.lane_keys, lanes_full = v_queue.lanes_full,
        unlaned_rows = v_queue.unlaned_rows, unlaned_xid = v_queue.unlaned_xid,
        unlaned_rank = v_queue.unlaned_rank, auto_lanes = v_queue.auto_lanes,
        lease = v_queue.lease,
        max_attempts = v_queue.max_attempts, backoff = v_queue.backoff,
        max_backoff = v_queue.max_backoff, retention = v_queue.retention, mode = v_queue.mode,
        dedup_window = v_queue.dedup_window, on_expiry = v_queue.on_expiry,
        set_size = v_queue.set_size, journal = v_queue.journal,
        on_dead = v_queue.on_dead, suggestions = v_queue.suggestions, limited = v_queue.limited,
        max_lease = v_queue.max_lease, dedup = v_queue.dedup
    where q.queue_id = v_queue.queue_id;
    -- The settings that publishers and pgq.check() depend on.
    if (v_before.lane_keys, v_before.mode, v_before.dedup_window, v_before.dedup,
        v_before.journal)
       is distinct from (v_queue.lane_keys, v_queue.mode, v_queue.dedup_window, v_queue.dedup,
                         v_queue.journal)
    then
        perform pgq._rerouted(caller);
    end if;
end
$$;
comment on function pgq.alter_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, int, text, int, int, text, int, boolean, interval, text, pgq.caller) is
    'Changes the given options of a queue. Null keeps an option. lane_keys => ''{}'' removes the '
    'lanes, and ''{auto}'' lets maintain() choose them. 0 or an empty rate removes a limit. Works '
    'on a queue with messages and consumers, and changes no message: maintain() sorts messages '
    'into new lanes. A new limit counts messages that are claimed from now on.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/alter_subscription.sql

-- Gives a subscription another filter; the next publish uses it.
create or replace function pgq.alter_subscription(
    queue text, pattern text, filter jsonb, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', alter_subscription.queue);
    v_filter pgq.filter;
    v_binding pgq.binding;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_pattern(caller, pattern, pgq._pattern_regex(pattern));
    end if;
    if filter is not null and filter <> '{}' then
        v_filter := pgq._find_filter(filter, null);
    end if;
    update pgq.binding b
    set filter = v_filter.document, scope = v_filter.scope, path = v_filter.path
    where b.queue_id = v_queue.queue_id and b.pattern = alter_subscription.pattern
    returning b.* into v_binding;
    if not found then
        raise exception '"%" is not subscribed to "%"', alter_subscription.queue, pattern
            using errcode = 'undefined_object',
                  hint = 'Subscribe it with pgq.subscribe(queue, pattern, filter).';
    end if;
    perform pgq._set_anchors(v_binding);
    perform pgq._rerouted(caller);
end
$$;
comment on function pgq.alter_subscription(text, text, jsonb, pgq.caller) is
    'Gives a subscription another filter; null removes the filter. The next publish uses it. '
    'Messages that the queue has received stay.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/change_right.sql

-- Adds a right or takes it away; false if that changes nothing.
create or replace function pgq._change_right(
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
    v_queue := pgq._queue(_change_right.queue, suggest => true);
    perform pgq._gc_rights();
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
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/check_lane_keys.sql

-- Raises 22023 unless these are lane keys: fields, named as in filters.
create or replace function pgq._check_lane_keys(lane_keys text[]) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_names text[] := array(select ltrim(k, '#') from unnest(lane_keys) k);
    v_name text;
    v_problem text;
    v_hint text;
begin
    foreach v_name in array v_names loop
        if v_name = 'auto' and cardinality(v_names) > 1 then
            v_problem := 'auto must be the only lane key';
            v_hint := 'Write ''{auto}'', or the keys; a header of this name is headers.auto.';
        elsif v_name is null or v_name = '' then
            v_problem := 'a lane key must be the name of a field';
            v_hint := 'Name a header, a field such as payload.region, or msg.recipient.';
        elsif v_name like 'msg.%' then
            if v_name !~ '^msg[.](topic|sender|recipient|reply_to|correlation_id|group_key)$' then
                v_problem := format('lane key "%s" is not possible', left(v_name, 64));
                v_hint := 'These fields of msg can be lane keys: topic, sender, recipient, '
                    'reply_to, correlation_id and group_key.';
            end if;
        elsif v_name not like 'payload.%' and v_name like '%.%' then
            v_problem := format('lane key "%s" names no field', left(v_name, 64));
            v_hint := format('A header has no parts; a field of the payload is payload.%s.',
                             left(v_name, 64));
        elsif v_name ~ '(^|[.])([.]|[$]|$)' or cardinality(string_to_array(v_name, '.')) > 17
                or exists (select from unnest(string_to_array(v_name, '.')) k
                           where length(k) > 128) then
            v_problem := format('lane key "%s" is not possible', left(v_name, 64));
            v_hint := 'Dots separate up to 16 keys of 1 to 128 characters that do not begin '
                'with $.';
        end if;
    end loop;
    case
        when v_problem is not null then
            null;
        when cardinality(v_names) > 4 then
            v_problem := 'a queue has at most 4 lane keys';
            v_hint := 'Choose the fields that most filters test.';
        when (select count(distinct k) < count(*) from unnest(v_names) k) then
            v_problem := 'lane keys must differ from each other';
            v_hint := 'Name each field once.';
        when exists (select from unnest(v_names) a, unnest(v_names) b
                     where starts_with(a, b || '.')) then
            v_problem := 'a lane key lies below another';
            v_hint := 'A lane key is a field with a single value, not an object.';
        when (select count(*) > 1 from unnest(lane_keys) k where k like '#%') then
            v_problem := 'a queue has at most one hashed lane key';
            v_hint := 'Put # before the key that has very many values.';
        else
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_lane_keys(text[]) is 'Raises 22023 unless the lane keys are valid.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/check_policy.sql

-- Raises 22023 unless the policy makes sense.
create or replace function pgq._check_policy(policy pgq.queue) returns void
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
                  and isfinite(policy.dedup_window) and isfinite(policy.max_lease)) then
            v_problem := 'intervals must be finite';
            v_hint := 'Use a long one, such as ''10 years''.';
        -- Queues share the log: an interval that no date can be moved by would stop all of them.
        when exists (
            select from (values ('lease', policy.lease), ('backoff', policy.backoff),
                         ('max_backoff', policy.max_backoff),
                         ('dedup_window', policy.dedup_window),
                         ('max_lease', policy.max_lease)) p (name, span)
            where p.span > interval '0' and p.span is distinct from
                pgq._bounded(p.span, pgq._limit('policy_years'))) then
            v_problem := format('lease, max_lease, backoff, max_backoff and dedup_window must be '
                                'at most %s years', pgq._limit('policy_years'));
            v_hint := 'No part of such an interval may be negative.';
        when policy.retention > interval '0' and policy.retention is distinct from
             pgq._bounded(policy.retention, pgq._limit('retention_years')) then
            v_problem := format('retention must be at most %s years',
                                pgq._limit('retention_years'));
            v_hint := 'No part of such an interval may be negative.';
        when policy.lease is null or policy.lease <= interval '0' then
            v_problem := 'lease must be longer than zero';
            v_hint := 'A lease is the time a consumer has for its messages, such as ''30 s''.';
        when policy.max_lease is null or policy.max_lease < policy.lease then
            v_problem := 'max_lease must not be shorter than lease';
            v_hint := 'It limits how long a consumer can hold messages by extending the lease.';
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
        when policy.dedup is null or policy.dedup not in ('keep', 'replace', 'postpone') then
            v_problem := format('unknown dedup "%s"', policy.dedup);
            v_hint := 'Use keep, replace or postpone.';
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
        else
            perform pgq._check_lane_keys(policy.lane_keys);
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_policy(pgq.queue) is 'Raises 22023 unless the policy is valid.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/close_types.sql

-- Revokes the row types of pgq from PUBLIC. A column of such a type, in a table of another role,
-- would keep an upgrade from altering the table that the type belongs to. Locks no table, so it may
-- run beside an upgrade.
create or replace function pgq._close_types() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_type regtype;
begin
    for v_type in
        select t.oid::regtype from pg_type t
        where t.typnamespace = 'pgq'::regnamespace and t.typtype = 'c'
          and has_type_privilege('public', t.oid, 'usage')
    loop
        execute format('revoke all on type %s from public', v_type);
    end loop;
end
$$;
comment on function pgq._close_types() is 'Revokes the row types of pgq from PUBLIC.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/create_queue.sql

-- Creates a queue that receives the topic of its name; false if it exists with this policy.
create or replace function pgq.create_queue(
    queue text,
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
    suggestions boolean default false,
    max_leased int default null,
    rate text default null,
    burst int default null,
    lane_max_leased int default null,
    lane_rate text default null,
    lane_burst int default null,
    fair boolean default false,
    max_lease interval default '3600 days',
    dedup text default 'keep'
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wanted pgq.queue;
    v_present pgq.queue;
    v_limits pgq.queue_limit;
    v_present_limits pgq.queue_limit;
    v_change text;
begin
    perform pgq._check_topic(create_queue.queue);
    v_wanted.auto_lanes := coalesce(create_queue.lane_keys = '{auto}', false);
    v_wanted.lane_keys := pgq._lane_keys(create_queue.lane_keys, null);
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
    v_wanted.max_lease := create_queue.max_lease;
    v_wanted.dedup := create_queue.dedup;
    perform pgq._check_policy(v_wanted);
    v_wanted.queue_id := 0;  -- of no queue yet
    v_limits := pgq._limits(
        v_wanted, max_leased, rate, burst, lane_max_leased, lane_rate, lane_burst, fair);
    v_wanted.limited := v_limits.queue_id is not null;

    insert into pgq.queue (name, lane_keys, auto_lanes, lease, max_attempts, backoff, max_backoff,
                           retention, mode, dedup_window, on_expiry, set_size, journal, on_dead,
                           suggestions, limited, max_lease, dedup)
    values (create_queue.queue, v_wanted.lane_keys, v_wanted.auto_lanes, v_wanted.lease,
            v_wanted.max_attempts, v_wanted.backoff, v_wanted.max_backoff, v_wanted.retention,
            v_wanted.mode, v_wanted.dedup_window, v_wanted.on_expiry, v_wanted.set_size,
            v_wanted.journal, v_wanted.on_dead, v_wanted.suggestions, v_wanted.limited,
            v_wanted.max_lease, v_wanted.dedup)
    on conflict on constraint queue_name_unique do nothing
    returning * into v_present;

    if v_present.queue_id is null then
        select q.* into v_present from pgq.queue q where q.name = create_queue.queue;
        v_wanted.lane_keys := pgq._lane_keys(create_queue.lane_keys, v_present.lane_keys);
        select l.* into v_present_limits from pgq.queue_limit l
        where l.queue_id = v_present.queue_id;
        v_change := pgq._policy_change(v_present, v_wanted, v_present_limits, v_limits);
        if v_change is not null then
            raise exception 'queue "%" exists with another policy', create_queue.queue
                using errcode = 'QU002', detail = v_change,
                      hint = 'Change it with pgq.alter_queue, or create it as it is.';
        end if;
        -- A queue made by subscribe has only its subscriptions: now it gets its own topic too.
        insert into pgq.binding (queue_id, pattern, counted)
        values (v_present.queue_id, create_queue.queue, false)
        on conflict on constraint binding_queue_pattern_unique do nothing;
        if found then
            perform pgq._rerouted();
        end if;
        return false;
    end if;

    insert into pgq.binding (queue_id, pattern, counted)
    values (v_present.queue_id, create_queue.queue, false);
    if v_present.limited then
        perform pgq._set_limits(v_present.queue_id, v_limits);
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq.create_queue(
    text, text[], interval, int, interval, interval, interval, text, interval, text, int,
    text, text, boolean, int, text, int, int, text, int, boolean, interval, text) is
    'Creates a queue that receives the topic of its name. Returns false if the queue exists with '
    'the same options. QU002 if it exists with other options. Limits: max_leased is the largest '
    'number of messages leased at a time. rate, such as 100/min, limits claims; burst is the size '
    'of its token bucket (by default a tenth of the rate). lane_max_leased, lane_rate and '
    'lane_burst limit each lane. With fair, claims take turns over the lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/drop_queue.sql

-- Drops an empty queue; one with messages only by force.
create or replace function pgq.drop_queue(
    queue text, force boolean default false, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', drop_queue.queue);
begin
    if not drop_queue.force and (
        exists (select from pgq.ready r where r.queue_id = v_queue.queue_id)
        or exists (select from pgq.scheduled s where s.queue_id = v_queue.queue_id)
        or exists (select from pgq.group_line g where g.queue_id = v_queue.queue_id)
        or exists (select from pgq.lease l where l.queue_id = v_queue.queue_id)
        or exists (select from pgq.letter d where d.queue_id = v_queue.queue_id))
    then
        raise exception 'queue "%" still holds messages', drop_queue.queue
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Purge it, discard its dead letters, or use force => true.';
    end if;
    if pgq._is_owner(caller) then
        perform pgq._lock_rights();  -- no role gets a right to the queue meanwhile
    end if;
    -- Not left to a foreign key, which does nothing under session_replication_role = replica.
    delete from pgq.binding b where b.queue_id = v_queue.queue_id;
    delete from pgq.queue q where q.queue_id = v_queue.queue_id;
    if not found then
        return false;
    end if;
    perform pgq._rerouted(caller);
    -- maintain() deletes what a transaction in flight may still add for this queue.
    perform pgq._gc_queue(v_queue.queue_id);
    -- Other roles leave it to maintain(): a change of privileges blocks all others until the
    -- transaction ends.
    if pgq._is_owner(caller) then
        perform pgq._gc_access();
    end if;
    return true;
end
$$;
comment on function pgq.drop_queue(text, boolean, pgq.caller) is
    'Drops a queue. If it has messages or dead letters, force => true is needed, and they are '
    'deleted. Returns false if another session has dropped it meanwhile.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/entity_filter.sql

-- The filter for lists of senders and recipients, exact or by regular expression.
create or replace function pgq.entity_filter(
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
    -- Recipients and broadcast widen each other; senders narrow the result. A list of recipients
    -- leaves broadcasts out by itself.
    if broadcast_filter or (not broadcast_filter and v_recipients is null) then
        v_addressed := v_addressed || jsonb_build_array(
            jsonb_build_object('msg.recipient', jsonb_build_object('$isNull', broadcast_filter)));
    end if;
    return case when v_senders is null then '{}'
                else jsonb_build_object('$and', jsonb_build_array(
                    jsonb_build_object('$or', v_senders))) end
        || case when v_addressed = '[]' then '{}'
                else jsonb_build_object('$or', v_addressed) end;
end
$$;
comment on function pgq.entity_filter(text[], text[], boolean, text[], text[]) is
    'A filter from lists of senders and recipients. Each type is exact (default) or regex. A '
    'match has a sender of the list and, if recipients are given, a recipient of the list or '
    '(with broadcast_filter) no recipient. Null: no condition. broadcast_filter => false excludes '
    'messages without a recipient.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/entity_test.sql

-- The alternatives for one field; null for no list.
create or replace function pgq._entity_test(field text, patterns text[], types text[])
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
    if patterns is null then
        return null;
    elsif patterns = '{}' then
        raise exception 'a list of patterns is empty'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave the list out to let everybody through.';
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
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/gc_access.sql

-- Removes the rights to dropped queues, and revokes the privileges that roles no longer need. The
-- caller holds the lock "right".
create or replace function pgq._gc_access() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_roles regrole[];
begin
    with gone as (
        delete from pgq.queue_right r
        where not exists (select from pgq.queue q where q.queue_id = r.queue_id)
        returning r.role
    )
    select array_agg(distinct g.role) into v_roles from gone g;
    perform pgq._set_access(r) from unnest(v_roles) r;
end
$$;
comment on function pgq._gc_access() is
    'Removes the rights to dropped queues, and their privileges.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/gc_queue.sql

-- Removes everything that belonged to a dropped queue.
create or replace function pgq._gc_queue(queue_id int) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.ready r where r.queue_id = _gc_queue.queue_id;
    delete from pgq.scheduled s where s.queue_id = _gc_queue.queue_id;
    delete from pgq.lease l where l.queue_id = _gc_queue.queue_id;
    delete from pgq.letter d where d.queue_id = _gc_queue.queue_id;
    delete from pgq.group_head g where g.queue_id = _gc_queue.queue_id;
    delete from pgq.group_line g where g.queue_id = _gc_queue.queue_id;
    delete from pgq.group_stall g where g.queue_id = _gc_queue.queue_id;
    delete from pgq.relay r where r.queue_id = _gc_queue.queue_id;
    delete from pgq.lineage l where l.queue_id = _gc_queue.queue_id;
    delete from pgq.stream s where s.queue_id = _gc_queue.queue_id;
    delete from pgq.waiter w where w.queue_id = _gc_queue.queue_id;
    delete from pgq.traffic t where t.queue_id = _gc_queue.queue_id;
    delete from pgq.outcome o where o.queue_id = _gc_queue.queue_id;
    delete from pgq.dedup d where d.queue_id = _gc_queue.queue_id;
    delete from pgq.flow f where f.queue_id = _gc_queue.queue_id;
    delete from pgq.lane l where l.queue_id = _gc_queue.queue_id;
    delete from pgq.lane_choice c where c.queue_id = _gc_queue.queue_id;
end
$$;
comment on function pgq._gc_queue(int) is 'Removes everything that belonged to a dropped queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/gc_rights.sql

-- Removes the rights of roles that were dropped, or have lost their privileges by DROP OWNED.
create or replace function pgq._gc_rights() returns void
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
comment on function pgq._gc_rights() is 'Removes the rights of roles that cannot use them.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/grant_queue.sql

-- Gives a role a right to a queue; false if it has the right already.
create or replace function pgq.grant_queue(queue text, role name, "right" text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq._change_right(queue, role, grant_queue.right, true);
end
$$;
comment on function pgq.grant_queue(text, name, text) is
    'Gives a role and its members a right to a queue. publish: publish to every topic that the '
    'queue receives. consume: claim from the queue and inspect it. admin: both, and alter, pause, '
    'subscribe, replay, discard and drop. The role also gets the privileges to call the functions '
    'of that right. Returns false if it has the right already.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/lane_keys.sql

-- Lane keys as the queue stores them: without the word headers. A key that was hashed stays hashed
-- unless another is to be. With {auto} the queue keeps its keys.
create or replace function pgq._lane_keys(lane_keys text[], before text[]) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hashed boolean := exists (select from unnest(lane_keys) k where k like '#%');
begin
    if lane_keys = '{auto}' then
        return before;
    end if;
    return nullif(array(
        select case when '#' || n.key = any (before) and not v_hashed then '#' else '' end || n.key
        from unnest(lane_keys) with ordinality u (key, i)
        cross join lateral (
            select case when u.key ~ '^#?headers[.]' then replace(u.key, 'headers.', '')
                   else u.key end as key) n
        order by u.i), '{}');
end
$$;
comment on function pgq._lane_keys(text[], text[]) is 'Lane keys as the queue stores them.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/limits.sql

-- The limits of a queue: the given ones, otherwise those that it has. 0 and '' remove a limit. Null
-- if no limit is left; 22023 if they are invalid.
create or replace function pgq._limits(
    queue pgq.queue, max_leased int, rate text, burst int, lane_max_leased int, lane_rate text,
    lane_burst int, fair boolean
) returns pgq.queue_limit
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit pgq.queue_limit;
    v_problem text;
    v_hint text;
begin
    select l.* into v_limit from pgq.queue_limit l where l.queue_id = queue.queue_id;
    v_limit.queue_id := queue.queue_id;
    v_limit.max_leased := nullif(coalesce(max_leased, v_limit.max_leased), 0);
    v_limit.rate := nullif(coalesce(rate, v_limit.rate), '');
    v_limit.burst := nullif(coalesce(burst, v_limit.burst), 0);
    v_limit.lane_max_leased := nullif(coalesce(lane_max_leased, v_limit.lane_max_leased), 0);
    v_limit.lane_rate := nullif(coalesce(lane_rate, v_limit.lane_rate), '');
    v_limit.lane_burst := nullif(coalesce(lane_burst, v_limit.lane_burst), 0);
    v_limit.fair := coalesce(fair, v_limit.fair, false);
    v_limit.step := pgq._rate_step(v_limit.rate);
    v_limit.lane_step := pgq._rate_step(v_limit.lane_rate);
    case
        when least(v_limit.max_leased, v_limit.lane_max_leased, v_limit.burst,
                   v_limit.lane_burst) < 0 then
            v_problem := 'a limit must not be negative';
            v_hint := 'Use 0 for no limit.';
        when v_limit.burst is not null and v_limit.rate is null
             or v_limit.lane_burst is not null and v_limit.lane_rate is null then
            v_problem := 'burst needs a rate';
            v_hint := 'It is how many messages may be claimed at once after a pause.';
        when queue.lane_keys is null and (v_limit.fair or num_nonnulls(
                 v_limit.lane_max_leased, v_limit.lane_rate) > 0) then
            v_problem := 'fair and the limits of lanes need lane_keys';
            v_hint := 'Name what a lane is, such as lane_keys => ''{tenant}''.';
        else
            if v_limit.fair or num_nonnulls(v_limit.max_leased, v_limit.rate,
                                            v_limit.lane_max_leased, v_limit.lane_rate) > 0
            then
                return v_limit;
            end if;
            return null;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._limits(pgq.queue, int, text, int, int, text, int, boolean) is
    'The limits of a queue, with changes.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/lock_rights.sql

-- Serializes changes of rights: PostgreSQL itself fails when two sessions change the privileges of
-- one object at once.
create or replace function pgq._lock_rights() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._lock('right');
end
$$;
comment on function pgq._lock_rights() is 'Serializes changes of rights.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/pattern_regex.sql

-- The regular expression of a topic pattern, null for a plain topic; raises for a bad pattern.
create or replace function pgq._pattern_regex(pattern text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if pattern is null or pattern !~ '[*#]' then
        perform pgq._check_topic(pattern);
        return null;
    end if;
    -- 22023, not the QU004 of _topic_regex: a pattern is not a filter.
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
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/pause.sql

-- Claims return nothing until resume; false if the queue was paused already.
create or replace function pgq.pause(
    queue text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', pause.queue);
begin
    update pgq.queue q set paused = true where q.queue_id = v_queue.queue_id and not q.paused;
    return found;
end
$$;
comment on function pgq.pause(text, pgq.caller) is
    'Stops delivery: claims return nothing until resume. Publishing and acknowledging continue. '
    'Returns false if the queue was paused already.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/policy.sql

-- The policy of a queue: the options of create_queue that are not null.
create or replace function pgq._policy(queue pgq.queue, limits pgq.queue_limit) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return jsonb_strip_nulls(
        to_jsonb(queue) || '{"fair": false}'
        || coalesce(jsonb_strip_nulls(to_jsonb(limits)), '{}')
        || jsonb_build_object(
            'lane_keys', case when queue.auto_lanes then '{auto}' else queue.lane_keys end))
        - '{queue_id,name,lanes_full,unlaned_rows,unlaned_xid,unlaned_rank,auto_lanes,paused,'
          'limited,channel,secret,created_at,step,lane_step}'::text[];
end
$$;
comment on function pgq._policy(pgq.queue, pgq.queue_limit) is
    'The options of a queue that are not null.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/policy_change.sql

-- The options in which two policies of a queue differ, with their values; null: in none.
create or replace function pgq._policy_change(
    present pgq.queue, wanted pgq.queue, present_limits pgq.queue_limit,
    wanted_limits pgq.queue_limit
) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select string_agg(format('%s is %s, not %s', o.key, coalesce(o.present, 'null'),
                                 coalesce(o.wanted, 'null')), '; ' order by o.key)
        from (
            select key, p.value as present, w.value as wanted
            from jsonb_each_text(pgq._policy(present, present_limits)) p
            full join jsonb_each_text(pgq._policy(wanted, wanted_limits)) w using (key)
        ) o
        -- Intervals that are equal may differ as text.
        where case when o.key in ('lease', 'max_lease', 'backoff', 'max_backoff', 'retention',
                                  'dedup_window')
              then o.present::interval is distinct from o.wanted::interval
              else o.present is distinct from o.wanted end);
end
$$;
comment on function pgq._policy_change(
    pgq.queue, pgq.queue, pgq.queue_limit, pgq.queue_limit) is
    'The options in which two policies of a queue differ.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/rate_step.sql

-- The seconds per message of a rate such as 100/min or 5/10 s; 22023 if it makes no sense.
create or replace function pgq._rate_step(rate text) returns float8
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_part text[] := regexp_match(rate, '^ *([0-9]{1,9}) */ *([0-9.]*) *([a-z]+) *$');
    v_seconds float8;
begin
    if rate is null then
        return null;
    end if;
    begin
        v_seconds := extract(epoch from (coalesce(nullif(v_part[2], ''), '1')
                                         || ' ' || v_part[3])::interval)::float8;
    exception
        when invalid_datetime_format or datetime_field_overflow then
            null;
    end;
    if v_seconds > 0 and v_part[1]::int > 0 then
        return v_seconds / v_part[1]::int;
    end if;
    raise exception 'invalid rate "%"', rate
        using errcode = 'invalid_parameter_value',
              hint = 'Use messages per time, such as 10/s, 100/min or 500/15 min.';
end
$$;
comment on function pgq._rate_step(text) is 'The seconds per message of a rate.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/require_pattern.sql

-- Raises 42501 unless the caller, who is not the owner, administers a queue that receives every
-- message of the pattern. A subscription must not extend the rights of a role: neither to messages
-- to read nor to topics to publish to.
create or replace function pgq._require_pattern(caller name, pattern text, regex text)
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
    'Raises 42501 unless the caller administers a queue that receives all topics of the pattern.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/rerouted.sql

-- Bindings have changed: makes the routing cache stale.
--
-- Publishers compare the version with the routes that they see: no lock is needed. A change holds
-- one stripe until its transaction ends. The owner may use all stripes; another role has three of
-- its own, chosen by its name, so its open transactions leave some for everybody else.
create or replace function pgq._rerouted(caller name default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_role boolean := caller is not null and not pgq._is_owner(caller);
    v_stripes int[] := array(
        select s.stripe from pgq.routing s
        order by case when v_role then hashtext(s.stripe || '.' || caller) else s.stripe end
        limit case when v_role then 3 end);
begin
    update pgq.routing r set version = r.version + 1
    where r.stripe = coalesce(
        (select s.stripe from pgq.routing s where s.stripe = any (v_stripes)
         order by s.stripe limit 1 for update skip locked),
        v_stripes[1 + pg_backend_pid() % cardinality(v_stripes)]);
    delete from pgq.route
    where ctid = any (array(
        select r.ctid from pgq.route r
        where r.version < (select sum(s.version) from pgq.routing s)
        for update skip locked));
end
$$;
comment on function pgq._rerouted(name) is
    'Invalidates the routing cache. The caller is null where pgq itself changes '
    'bindings.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/resume.sql

-- Resumes delivery; false if the queue was not paused.
create or replace function pgq.resume(
    queue text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', resume.queue);
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
    'Lets a paused queue deliver again. Returns false if it was not paused.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/revoke_queue.sql

-- Takes a right to a queue away from a role; false if it does not have it.
create or replace function pgq.revoke_queue(queue text, role name, "right" text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq._change_right(queue, role, revoke_queue.right, false);
end
$$;
comment on function pgq.revoke_queue(text, name, text) is
    'Takes a right to a queue away from a role, and the privileges that the role no longer needs. '
    'Other rights stay, also those as a member of another role. Returns false if the role does '
    'not have the right.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/set_access.sql

-- Gives a role the privileges that its rights need, and takes away those that they do not.
create or replace function pgq._set_access(role regrole) returns void
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
    -- An old snapshot does not show all rights. A privilege without a right does no harm.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    select a.rolname into v_name from pg_roles a where a.oid = _set_access.role;
    if not found then
        return;  -- dropped, and its privileges with it
    end if;
    perform pgq._close_types();
    for v_access in
        select p.privileges, p.rights && v_rights as needed
        from (values
            (v_any, 'usage on schema pgq'),
            (v_any, 'select on pgq.rights'),
            (v_any, 'execute on function pgq.result, pgq.wait_result'),
            (v_any, 'execute on function pgq.version, pgq.now, pgq.matches, pgq.matches_topic, '
                'pgq.compile_filter, pgq.header_equals, pgq.header_in, pgq.header_not_equals, '
                'pgq.header_like, pgq.all_of, pgq.any_of, pgq.addressed_to, pgq.entity_filter'),
            (v_publish, 'execute on function pgq.reply, pgq.publish_staged, pgq.writer_epoch, '
                'pgq.schedule, pgq.unschedule, pgq.pause_schedule, pgq.resume_schedule, '
                'pgq.publish(text, jsonb, jsonb, int, interval, interval, text, text, text, '
                'text, text, text, timestamptz, pgq.caller), '
                'pgq.publish(varchar, json, jsonb, int, interval, interval, text, text, text, '
                'text, text, text, timestamptz), '
                'pgq.publish_batch(text, jsonb[], jsonb[], int, interval, interval, text, text, '
                'text, text, text, text[], timestamptz, pgq.caller), '
                'pgq.publish_batch(varchar, json[], jsonb[], int, interval, interval, text, '
                'text, text, text, text, text[], timestamptz)'),
            (v_publish, 'select on pgq.schedules'),
            -- Consumers stage rows too, for tables of their own.
            (v_any, 'execute on function pgq.discard_staged, pgq.take_staged, pgq.commit_batch'),
            (v_any, 'insert (token, position, topic, priority, headers, payload, sender, '
                'recipient, reply_to, correlation_id, group_key, dedup_key, deliver_at, '
                'expires_at) on pgq.staged'),
            -- For INSERT and COPY. Not the id, the era, the time, the publisher: pgq sets these.
            (v_publish, 'insert (topic, priority, headers, payload, sender, recipient, reply_to, '
                'correlation_id, group_key, dedup_key, deliver_at, expires_at) on pgq.message'),
            (v_publish, 'usage on sequence pgq.message_id'),
            (v_publish, 'select on sequence pgq.era_number'),
            (v_consume, 'execute on function pgq.claim, pgq.ack, pgq.nack, pgq.bury, pgq.extend, '
                'pgq.release, pgq.leased, pgq.peek, pgq.messages, pgq.wait_begin, pgq.wait_end, '
                'pgq.channel, pgq.seen, pgq.explain_filter, pgq.history, pgq.replies, '
                'pgq._queue_stats, pgq.finish, '
                'pgq.metrics, pgq._metrics, pgq.findings, pgq._findings, pgq._server_findings, '
                'pgq._span, pgq.hold, pgq.named_lease, '
                'pgq.lease_parts, pgq.backlog, pgq.peek_slice, '
                'pgq.stream_begin, pgq.stream_bind, pgq.stream_claim, pgq.stream_batch, '
                'pgq.stream_finish, pgq.stream_end, pgq.stream_read, '
                'pgq.relay_report, pgq.log_range, pgq.read_log, pgq.log_parts, pgq.log_lock, '
                'pgq.dead_letter_ids'),
            (v_consume, 'select on pgq.queue_stats, pgq.queue_traffic, '
                'pgq.message_state, pgq.dead_letter, '
                'pgq.leased_message, pgq.subscription, pgq.filter_stats, pgq.relays, pgq.streams, '
                'pgq.limits, '
                'pgq._visible_queue, pgq._metric'),
            (v_admin, 'execute on function pgq.alter_queue, pgq.drop_queue, pgq.pause, pgq.resume, '
                'pgq.subscribe, pgq.unsubscribe, pgq.unsubscribe_all, pgq.alter_subscription, '
                'pgq.replay, pgq.discard, pgq.purge, pgq.cancel, pgq.move, pgq.reschedule')
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
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/set_limits.sql

-- Stores the limits of a queue; null: none.
create or replace function pgq._set_limits(queue_id int, limits pgq.queue_limit) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Waits for claims in progress, which know the old limits.
    perform from pgq.flow f
    where f.queue_id = _set_limits.queue_id
      and f.lane between pgq._shard_lane(0) and pgq._shard_lane(15) and f.full_at = 'epoch'
    order by f.lane for update;
    delete from pgq.queue_limit l where l.queue_id = _set_limits.queue_id;
    if limits.queue_id is not null then
        limits.queue_id := _set_limits.queue_id;
        insert into pgq.queue_limit select limits.*;
        insert into pgq.flow (queue_id, lane, full_at)
        select _set_limits.queue_id, pgq._shard_lane(s), 'epoch' from generate_series(0, 15) s
        on conflict on constraint flow_pkey do nothing;
    end if;
    -- Consumers that sleep may have been waiting for a limit.
    perform pgq._wake(_set_limits.queue_id);
end
$$;
comment on function pgq._set_limits(int, pgq.queue_limit) is 'Stores the limits of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/subscribe.sql

-- Adds a binding to a queue, which is created if it is new; false if the binding was there.
create or replace function pgq.subscribe(
    queue text,
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
    v_past boolean := since is not null or since_id is not null;
    v_locked boolean := false;
begin
    perform pgq._check_topic(subscribe.queue);
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', subscribe.queue);
        perform pgq._require_pattern(caller, pattern, v_regex);
    end if;
    if filter is not null and filter <> '{}' then
        v_filter := pgq._find_filter(filter, null);
    end if;
    if v_past and pgq._is_owner(caller) and not exists (
        select from pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
        where q.name = subscribe.queue and b.pattern = subscribe.pattern)
    then
        -- Waits for publishers in flight, which do not see the binding yet, and blocks new ones:
        -- exactly the messages that are in the log then have to be added here. Other roles than
        -- the owner leave it to maintain(): their transactions may stay open.
        lock table pgq.message in share row exclusive mode;
        v_locked := true;
    end if;
    insert into pgq.queue (name) values (subscribe.queue)
    on conflict on constraint queue_name_unique do nothing;
    v_queue := pgq._queue(subscribe.queue);

    insert into pgq.binding (queue_id, pattern, regex, filter, scope, path, pending, since,
                             since_id)
    values (v_queue.queue_id, subscribe.pattern, v_regex, v_filter.document, v_filter.scope,
            v_filter.path, v_past and not v_locked,
            case when subscribe.since is not null then least(subscribe.since, pgq.now()) end,
            case when subscribe.since_id is not null then
                least(subscribe.since_id, 1 + pg_sequence_last_value('pgq.message_id')) end)
    on conflict on constraint binding_queue_pattern_unique do nothing
    returning * into v_binding;
    if v_binding.binding_id is null then
        select b.* into v_binding from pgq.binding b
        where b.queue_id = v_queue.queue_id and b.pattern = subscribe.pattern;
        if v_binding.filter is distinct from v_filter.document then
            raise notice '"%" is subscribed to "%" with another filter', subscribe.queue, pattern
                using hint = 'Change it with pgq.alter_subscription.';
        end if;
        return false;
    end if;
    perform pgq._set_anchors(v_binding);
    if v_binding.pending then
        raise notice 'the subscription begins with the next maintenance'
            using hint = 'It misses nothing. pgq.maintain() adds what the log has.';
        return true;
    end if;
    perform pgq._rerouted(caller);
    if v_past then
        perform pgq._backfill(v_queue, v_binding, since, since_id);
    end if;
    return true;
end
$$;
comment on function pgq.subscribe(text, text, jsonb, timestamptz, bigint, pgq.caller) is
    'Subscribes a queue to the topics that match the pattern, and creates the queue if it is new. '
    'Words are separated by dots, * is one word, # is any number of words. The filter is '
    'evaluated once, when a message is published. The subscription starts with the next message. '
    'With since or since_id it starts with older messages of the log, from a time or a message id '
    'on. Publishing waits while the owner adds these; for other roles the next pgq.maintain() '
    'adds them. Returns false if the subscription exists already.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/unsubscribe.sql

-- Removes a binding; false if it was not there.
create or replace function pgq.unsubscribe(
    queue text, pattern text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', unsubscribe.queue);
    end if;
    delete from pgq.binding b using pgq.queue q
    where q.name = unsubscribe.queue and b.queue_id = q.queue_id
      and b.pattern = unsubscribe.pattern;
    if not found then
        return false;
    end if;
    perform pgq._rerouted(caller);
    return true;
end
$$;
comment on function pgq.unsubscribe(text, text, pgq.caller) is
    'Ends a subscription. Messages that the queue has received stay. Returns false if there was '
    'none.';
$pgq_script$;
    execute $pgq_script$
-- sql/30_queue/unsubscribe_all.sql

-- Removes all subscriptions of a queue; returns how many.
create or replace function pgq.unsubscribe_all(
    queue text, caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', unsubscribe_all.queue);
    end if;
    -- Not the topic of its own name, which makes it a queue: only drop_queue ends that.
    delete from pgq.binding b using pgq.queue q
    where q.name = unsubscribe_all.queue and b.queue_id = q.queue_id and b.counted;
    get diagnostics v_count = row_count;
    if v_count > 0 then
        perform pgq._rerouted(caller);
    end if;
    return v_count;
end
$$;
comment on function pgq.unsubscribe_all(text, pgq.caller) is
    'Ends all subscriptions of a queue and returns how many there were.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/begin_epoch.sql

-- Records that a writer publishes an epoch; false if it has done so before.
create or replace function pgq._begin_epoch(
    writer text, epoch bigint, query text, anew boolean, role text
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_writer pgq.writer;
    v_is_owner boolean := pgq._is_owner(_begin_epoch.role::name);
begin
    insert into pgq.writer as w (writer, epoch, size, published_at, query, role)
    values (_begin_epoch.writer, _begin_epoch.epoch, 0, pgq.now(), _begin_epoch.query,
            _begin_epoch.role)
    on conflict on constraint writer_pkey do update
    set epoch = excluded.epoch, published_at = excluded.published_at,
        query = coalesce(excluded.query, w.query)
    where (v_is_owner or w.role = _begin_epoch.role)
      and case when w.query <> excluded.query then _begin_epoch.anew
               else w.epoch < excluded.epoch end;
    if found then
        perform pgq._flush();
        return true;
    end if;
    select w.* into v_writer from pgq.writer w where w.writer = _begin_epoch.writer;
    if not v_is_owner and v_writer.role <> _begin_epoch.role then
        raise exception 'permission denied for writer "%"', writer
            using errcode = 'insufficient_privilege',
                  hint = 'Another role has published under this name: choose a new one.';
    end if;
    if query <> v_writer.query then
        raise exception 'writer "%" belongs to the checkpoint of another query', writer
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('It has published epoch %s of query %s, and now publishes epoch '
                                  '%s of query %s.', v_writer.epoch, v_writer.query, epoch, query),
                  hint = 'A new checkpoint needs a new writer; newCheckpoint=true publishes under '
                      'the old name all the same.';
    end if;
    if epoch < v_writer.epoch then
        raise exception 'writer "%" has published epoch % and now publishes %', writer,
            v_writer.epoch, epoch
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'A writer with a new checkpoint needs a new name.';
    end if;
    return false;
end
$$;
comment on function pgq._begin_epoch(text, bigint, text, boolean, text) is
    'Records that a writer publishes an epoch; false if it has done so before.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/begin_publish.sql

-- Transaction ids show who may still publish into a closed era, or into a queue that has changed.
-- So an INSERT needs one before it reads the era and the route.
create or replace function pgq._begin_publish() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_current_xact_id();
    return null;
end
$$;
comment on function pgq._begin_publish() is
    'Assigns a transaction id before routes are read.';

create or replace trigger begin_publish before insert on pgq.message
    for each statement execute function pgq._begin_publish();
-- Also under session_replication_role = replica, which loaders set: else nothing would be routed.
alter table pgq.message enable always trigger begin_publish;
comment on trigger begin_publish on pgq.message is 'Assigns a transaction id first.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/check_ids.sql

-- Refuses ids and slots that an INSERT has chosen itself, unless they are as valid as the defaults:
-- taken from the sequence, used once, in an era that is open.
create or replace function pgq._check_ids(low bigint, high bigint, slots smallint[]) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next smallint := ((pg_sequence_last_value('pgq.era_number') + 1) % 3)::smallint;
begin
    if low < 1 or high > coalesce(pg_sequence_last_value('pgq.message_id'), 0) then
        raise exception 'message id % is not one of the sequence pgq.message_id',
            case when low < 1 then low else high end
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave the id out. A number of your own belongs into a header, '
                      'correlation_id or dedup_key.';
    elsif v_next = any (slots) then
        raise exception 'era % is not open', v_next
            using errcode = 'invalid_parameter_value', hint = 'Leave the era out.';
    end if;
    -- Each slot has its own primary key. The ids of two slots hardly ever overlap.
    if (cardinality(slots) > 1 or exists (
            select from pgq.message m
            where m.id >= low and m.id <= high and m.era <> slots[1]))
       and exists (
            select from pgq.message m join pgq.message o on o.id = m.id and o.era <> m.era
            where m.id >= low and m.id <= high)
    then
        raise exception 'a message with an id from % to % is in the log already', low, high
            using errcode = 'unique_violation', hint = 'Leave the id out.';
    end if;
end
$$;
comment on function pgq._check_ids(bigint, bigint, smallint[]) is
    'Rejects ids and slots that an INSERT gives, unless they are valid.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/copy_late.sql

-- Moves messages into the current era that a slow INSERT has put into an era that is closed now: it
-- read the era number before it computed the payloads. The archive may already have copied that
-- era, so finished messages would be truncated without being archived.
create or replace function pgq._copy_late(ids bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.message m
    set era = pg_sequence_last_value('pgq.era_number') % 3
    where m.id = any (_copy_late.ids);
end
$$;
comment on function pgq._copy_late(bigint[]) is
    'Moves messages that were inserted into a closed era into the current one.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/deliver_direct.sql

-- Delivers messages that need nothing special to a queue with lanes. Takes them from its arguments:
-- to read them from the log would cost a quarter of a batch.
create or replace function pgq._deliver_direct(
    queue pgq.queue, ids bigint[], payloads jsonb[], headers jsonb[], topic text, priority int,
    sender text, recipient text, reply_to text, correlation_id text
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hashed text := substr(queue.lane_keys[pgq._hashed_key(queue.lane_keys)], 2);
    -- A queue whose only key is hashed has one label.
    v_labeled boolean := v_hashed is null or cardinality(queue.lane_keys) > 1;
    v_message pgq.message;
    v_label jsonb := '[[], [], [], []]';
    v_hashes int[];
    v_flat boolean := cardinality(ids) = 1;
    v_set record;
begin
    if v_flat and (v_labeled or strpos(v_hashed, '.') > 0) then
        v_message := row(
            null, null, topic, priority, coalesce(headers[1], '{}'), payloads[1], sender,
            recipient, reply_to, correlation_id, null, null, null, null, null, null)::pgq.message;
        if v_labeled then
            v_label := pgq._lane_label(v_message, queue.lane_keys);
        end if;
        if v_hashed is not null then
            v_hashes := array[pgq._lane_hash(pgq._lane_value(v_message, v_hashed))];
        end if;
    elsif v_flat then
        v_hashes := array[pgq._lane_hash(coalesce(headers[1] -> v_hashed, '[]'))];
    elsif not v_labeled and strpos(v_hashed, '.') = 0 then
        v_hashes := array(
            select pgq._lane_hash(coalesce(u.header -> v_hashed, '[]'))
            from (select unnest(_deliver_direct.ids) as id,
                         unnest(_deliver_direct.headers) as header) u);
        v_flat := (select count(distinct u.h) > cardinality(_deliver_direct.ids) / 2
                   from (select unnest(v_hashes) as h) u);
        if not v_flat then
            perform pgq._add_laned(queue, v_label, _deliver_direct.priority, false, 0, null, null,
                                   false, _deliver_direct.ids, v_hashes);
            return;
        end if;
    end if;
    if v_flat then
        -- A row for each message. Mostly the lane is there: without the call of pgq._lane a publish
        -- takes 5 % less.
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, grouped, hash, ids)
        select queue.queue_id,
               coalesce((select l.lane_id from pgq.lane l
                         where l.queue_id = queue.queue_id and l.label = v_label
                           and l.lane_keys = queue.lane_keys and l.idle is null
                         order by l.lane_id limit 1),
                        pgq._lane(queue.queue_id, queue.lane_keys, queue.lanes_full, v_label)),
               pgq._rank(_deliver_direct.priority, false, u.id), 0, 1, pg_current_xact_id(), false,
               u.hash, int8multirange(int8range(u.id, u.id + 1))
        from (select unnest(_deliver_direct.ids) as id, unnest(v_hashes) as hash) u;
        return;
    end if;
    for v_set in
        select case when v_labeled then pgq._lane_label(n.m, queue.lane_keys)
               else '[[], [], [], []]' end as label,
               array_agg(n.id order by n.id) as ids,
               array_agg(case when v_hashed is not null then
                   pgq._lane_hash(pgq._lane_value(n.m, v_hashed)) end order by n.id) as hashes
        from (
            select u.id, row(
                       null, null, _deliver_direct.topic, _deliver_direct.priority,
                       coalesce(u.header, '{}'), u.payload, _deliver_direct.sender,
                       _deliver_direct.recipient, _deliver_direct.reply_to,
                       _deliver_direct.correlation_id, null, null, null, null, null, null
                   )::pgq.message as m
            from unnest(_deliver_direct.ids, payloads, _deliver_direct.headers)
                u (id, payload, header)
        ) n
        group by 1
    loop
        perform pgq._add_laned(queue, v_set.label, _deliver_direct.priority, false, 0, null, null,
                               false, v_set.ids, v_set.hashes);
    end loop;
end
$$;
comment on function pgq._deliver_direct(
    pgq.queue, bigint[], jsonb[], jsonb[], text, int, text, text, text, text) is
    'Delivers messages without special properties to a queue with lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/discard_staged.sql

-- Deletes what was staged under these tokens.
create or replace function pgq.discard_staged(tokens uuid[]) returns bigint
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
    'Deletes the messages that were staged under these tokens. Returns how many.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/duplicates.sql

-- The given messages of the log that a queue does not get, because it has had their dedup key, and
-- the queue; a queue_id of null: no queue gets the message.
create or replace function pgq._duplicates(ids bigint[])
returns table (message_id bigint, queue_id int)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
    v_route pgq.route;
    v_queues int[];
begin
    -- All transactions take keys in the same order, so that two batches cannot deadlock.
    for v_message in
        select m.id, m.topic, m.dedup_key from unnest(_duplicates.ids) i
        join pgq.message m on m.id = i order by m.topic, m.dedup_key, m.id
    loop
        v_queues := pgq._take_key(v_message.topic, v_message.dedup_key, v_message.id);
        v_route := pgq._route_of(v_message.topic);
        if v_queues = '{}' and not v_route.replacing then
            return query select v_message.id, null::int;
        else
            return query
                select v_message.id, u.queue_id from pgq._receivers(v_route) u
                where u.queue_id <> all (v_queues);
        end if;
    end loop;
end
$$;
comment on function pgq._duplicates(bigint[]) is
    'Messages that a queue does not get, because it has had their dedup key.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/empty_staged.sql

-- Truncates the staging table, if it holds nothing but these tokens and no other session uses it:
-- to delete a million rows takes a fifth of the time of publishing them.
create or replace function pgq._empty_staged(tokens uuid[]) returns boolean
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
    'Truncates the staging table if all its rows have these tokens.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/find_bindings.sql

-- Which messages match which of the bindings that are found by their anchors: the values of the
-- messages are looked up, and only filters that have an anchor there are tested.
create or replace function pgq._find_bindings(
    route pgq.route, ids bigint[], now timestamptz
) returns pgq._hits
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hits pgq._hits;
begin
    select array_agg(b.binding_id), array_agg(m.id)
    into v_hits
    from unnest(_find_bindings.ids) u (id)
    join pgq.message m on m.id = u.id
    cross join lateral pgq._places(route.fields, route.patterns, m) p
    -- an array of candidates: = any finds each of them once
    join pgq.binding b on b.binding_id = any (array(
        select a.binding_id from pgq.anchor a
        where a.place = any (p.places) or a.field = any (p.names) or a.area @> any (p.areas)))
    where route.version = (select sum(s.version) from pgq.routing s)
      and not b.pending and b.binding_id <> all (route.binding_ids)
      and (b.regex is null and b.pattern = route.topic or route.topic ~ b.regex)
      and pgq._matches(b.path, b.scope, m, 1, now)
      -- not a join: that would read all queues
      and (select q.mode from pgq.queue q where q.queue_id = b.queue_id) = 'queue';
    return v_hits;
end
$$;
comment on function pgq._find_bindings(pgq.route, bigint[], timestamptz) is
    'Matches messages with the bindings that are found by anchors.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/index_route.sql

-- Takes the bindings that can be found by their anchors out of a route that has many, and lists the
-- fields of a message to look up. A field that many filters test is looked up by its value; headers
-- that few filters test, by their name.
create or replace function pgq._index_route(route pgq.route) returns pgq.route
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_found int[];
begin
    with used as materialized (
        select a.*, b.anchors, b.pattern
        from unnest(route.binding_ids) u (binding_id)
        join pgq.binding b on b.binding_id = u.binding_id and b.anchors > 0
        join pgq.anchor a on a.binding_id = b.binding_id
        -- bindings and anchors must be of the same version as the route
        where route.version = (select sum(s.version) from pgq.routing s)
    ), listed as materialized (
        select u.field, min(u.scope) as scope, min(u.path) as path,
               bool_or(u.kind = 'equal') as equal,
               array_agg(distinct u.size) filter (where u.kind = 'prefix') as sizes,
               bool_or(u.kind = 'range') as ranged, bool_or(u.kind = 'text range') as texts,
               bool_or(u.kind = 'there') as there, bool_or(u.kind = 'missing') as missing,
               bool_or(u.kind = 'several') as several
        from used u
        group by u.field having count(*) >= pgq._limit('field_filters')
        order by count(*) desc, u.field limit pgq._limit('fields')
    ), named as materialized (
        select u.pattern from used u
        where u.scope = 'headers' and u.field not in (select l.field from listed l)
        group by u.pattern order by count(*) desc, u.pattern limit pgq._limit('field_patterns')
    ), found as (
        select u.binding_id from used u
        group by u.binding_id, u.anchors
        having count(*) = u.anchors and bool_and(
            u.field in (select l.field from listed l)
            or u.scope = 'headers' and u.kind <> 'missing'
            and u.pattern in (select n.pattern from named n))
    )
    select array(select f.binding_id from found f),
           array(select (l.field, l.scope, l.path, case l.scope when 'payload' then array(
                     -- the last key without the steps into arrays: arrays are values, too
                     select ('$' || left(s.spelling, -9))::jsonpath
                     from unnest(pgq._filter_spellings(to_jsonb(l.path), false)) as s (spelling))
                     end,
                     l.equal, l.sizes, l.ranged, l.texts, l.there, l.missing,
                     l.several)::pgq._field
                 from listed l),
           array(select n.pattern from named n)
    into v_found, route.fields, route.patterns;
    if v_found = '{}' then
        route.fields := null;
        route.patterns := null;
    else
        route.receivers := '{}';
        route.windows := '{}';
        route.binding_ids := array(
            select u from unnest(route.binding_ids) u except select f from unnest(v_found) f);
    end if;
    return route;
end
$$;
comment on function pgq._index_route(pgq.route) is
    'Takes bindings that can be found by their anchors out of a route.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/is_plain.sql

-- Whether headers are an object of scalars and suggest no route: such messages need no trigger.
create or replace function pgq._is_plain(headers jsonb) returns boolean
language sql immutable parallel safe
return headers is null or jsonb_typeof(headers) = 'object' and not headers ? 'route'
    and not headers @? '$.*.type() ? (@ == "array" || @ == "object")';
comment on function pgq._is_plain(jsonb) is 'Whether headers need no special handling.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/keep_log.sql

-- Refuses manual changes of the log, and TRUNCATE of the tables of queues: a deleted message would
-- stay in the sets of its queues. Functions that may change the log are recognized by the call
-- stack; no role but the owner can create functions of these names.
create or replace function pgq._keep_log() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stack text;
begin
    get diagnostics v_stack = pg_context;
    if v_stack ~ 'pgq[.](publish|_publish_direct|_copy_forward|_copy_late|_truncate_slot)[(]'
       -- Logical replication repeats what happened elsewhere.
       or exists (select from pg_stat_activity a
                  where a.pid = pg_backend_pid() and a.backend_type like 'logical replication%')
    then
        return null;
    end if;
    raise exception '% on pgq.% is refused', tg_op, tg_table_name
        using errcode = 'feature_not_supported',
              detail = case when tg_table_name like 'message%'
                  then 'The log is immutable: pgq.maintain() removes messages by the retention of '
                      'the queues.'
                  else 'Every message of every queue would be lost.' end,
              hint = case when tg_op = 'UPDATE'
                  then 'Publish another message, and take this one out of a queue with pgq.cancel.'
                  else 'pgq.cancel takes messages out of a queue, pgq.purge empties one, '
                      'pgq.discard ends dead letters.' end;
end
$$;
comment on function pgq._keep_log() is 'Rejects manual changes of the log.';

-- Only once: to create a trigger again would lock the tables at every upgrade.
do $$
declare
    v_table text;
begin
    foreach v_table in array
        '{message,message_0,message_1,message_2,ready,scheduled,lease,group_head,group_line,
          letter}'::pg_catalog.text[]
    loop
        continue when exists (
            select from pg_catalog.pg_trigger t
            where t.tgrelid operator(pg_catalog.=) pg_catalog.format('pgq.%I', v_table)::regclass
              and t.tgname operator(pg_catalog.=) 'keep_log');
        -- Every call changes the tables other than the log: there only TRUNCATE has the trigger.
        execute pg_catalog.format(
            'create trigger keep_log before %s truncate on pgq.%I '
            'for each statement execute function pgq._keep_log()',
            case when v_table ~ '^message' then 'update or delete or' end, v_table);
        execute pg_catalog.format('alter table pgq.%I enable always trigger keep_log', v_table);
        execute pg_catalog.format(
            'comment on trigger keep_log on pgq.%I is %L', v_table,
            'Messages are taken out of queues by functions, not by hand.');
    end loop;
end
$$;
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/key_holders.sql

-- For messages that were just published with dedup keys: the ids of the messages that stay. If a
-- topic has a single queue, which replaces or postpones, another message may stay instead.
create or replace function pgq._key_holders(topic text, dedup_keys text[], ids bigint[])
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route := pgq._route_of(topic);
    v_queues int[];
begin
    if not v_route.replacing or v_route.receivers <> '{}' then
        return ids;
    end if;
    v_queues := array(
        select unnest(v_route.queue_ids)
        union
        select b.queue_id from pgq.binding b where b.binding_id = any (v_route.binding_ids));
    if cardinality(v_queues) <> 1 then
        return ids;
    end if;
    return array(
        select coalesce(d.message_id, u.id)
        from unnest(_key_holders.ids, _key_holders.dedup_keys) with ordinality u (id, key, i)
        left join pgq.dedup d on d.queue_id = v_queues[1] and d.topic = _key_holders.topic
            and d.dedup_key = u.key
        order by u.i);
end
$$;
comment on function pgq._key_holders(text, text[], bigint[]) is
    'The ids of messages that remain after deduplication.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/key_owner.sql

-- This message, if a queue gets it as its first one with the dedup key; else the message that was
-- first. Queues that replace or postpone get the message in any case.
create or replace function pgq._key_owner(topic text, dedup_key text, message_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_first bigint;
begin
    while pgq._take_key(topic, dedup_key, message_id) = '{}'
        and not (pgq._route_of(topic)).replacing
    loop
        select max(d.message_id) into v_first
        from pgq._receivers(pgq._route_of(_key_owner.topic)) u
        join pgq.dedup d on d.queue_id = u.queue_id
        where d.topic = _key_owner.topic and d.dedup_key = _key_owner.dedup_key;
        if v_first is not null then
            return v_first;
        end if;
        -- The key has expired, and was deleted meanwhile.
    end loop;
    return message_id;
end
$$;
comment on function pgq._key_owner(text, text, bigint) is 'The message that has the dedup key.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/lock_key.sql

-- Takes a dedup key for a message and returns null, or locks and returns the row of another message
-- that has it. Waits for another transaction that publishes the key, to know which is first.
create or replace function pgq._lock_key(
    queue_id int, topic text, dedup_key text, message_id bigint, due_at timestamptz,
    until timestamptz
) returns pgq.dedup
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key pgq.dedup;
begin
    loop
        insert into pgq.dedup (queue_id, topic, dedup_key, message_id, until, due_at)
        values (_lock_key.queue_id, _lock_key.topic, _lock_key.dedup_key, _lock_key.message_id,
                _lock_key.until, _lock_key.due_at)
        on conflict on constraint dedup_pkey do nothing;
        exit when found;
        select d.* into v_key from pgq.dedup d
        where d.queue_id = _lock_key.queue_id and d.topic = _lock_key.topic
          and d.dedup_key = _lock_key.dedup_key
        for update;
        exit when found;  -- else it was deleted meanwhile
    end loop;
    return v_key;
end
$$;
comment on function pgq._lock_key(int, text, text, bigint, timestamptz, timestamptz) is
    'Takes a dedup key for a message, or locks it.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/places.sql

-- The keys of the anchors whose filters a message may match: places and areas of its fields, and
-- the names of headers that only few filters test.
create or replace function pgq._places(
    fields pgq._field[], patterns text[], message pgq.message,
    out places bigint[], out areas box[], out names bigint[])
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_field pgq._field;
    v_values jsonb[];
    v_value jsonb;
    v_type text;
    v_size int;
begin
    foreach v_field in array fields loop
        -- null stands for a field that is missing
        v_values := case v_field.scope
            when 'headers' then array[message.headers -> v_field.path[1]]
            when 'payload' then pgq._field_values(v_field.paths, message.payload)
            else array[case v_field.path[1]
                when 'topic' then to_jsonb(message.topic)
                when 'priority' then to_jsonb(message.priority)
                when 'sender' then to_jsonb(message.sender)
                when 'recipient' then to_jsonb(message.recipient)
                when 'reply_to' then to_jsonb(message.reply_to)
                when 'correlation_id' then to_jsonb(message.correlation_id)
                when 'group_key' then to_jsonb(message.group_key) end] end;
        if v_field.several and cardinality(v_values) > 1 then
            places := places || (v_field.field # 3);
        end if;
        foreach v_value in array v_values loop
            if v_value is null then
                if v_field.missing then
                    places := places || (v_field.field # 2);
                end if;
                continue;
            end if;
            v_type := jsonb_typeof(v_value);
            if v_field.equal then
                places := places || jsonb_hash_extended(v_value, v_field.field);
            end if;
            if v_field.there then
                places := places || (v_field.field # 1);
            end if;
            if v_type = 'string' and v_field.sizes is not null then
                foreach v_size in array v_field.sizes loop
                    places := places || hashtextextended(
                        left(v_value #>> '{}', v_size) collate "C", v_field.field);
                end loop;
            end if;
            if v_type = 'number' and v_field.ranged then
                areas := areas || pgq._area(
                    v_field.field, false, pgq._number_place(v_value::numeric));
            elsif v_type = 'string' and v_field.texts then
                areas := areas || pgq._area(
                    v_field.field, true, pgq._text_place(v_value #>> '{}'));
            end if;
        end loop;
    end loop;
    if patterns <> '{}' then
        names := array(
            select pgq._field_hash(p, 'headers', h)
            from unnest(patterns) p, jsonb_object_keys(message.headers) h
            except
            select f.field from unnest(fields) f);
    end if;
end
$$;
comment on function pgq._places(pgq._field[], text[], pgq.message) is
    'The keys of anchors whose filters a message may match.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/postpone.sql

-- Puts a message back that was taken out of its queue, until the time of other messages with its
-- dedup key, but never earlier than it was due. Returns when it is due.
create or replace function pgq._postpone(
    queue pgq.queue, old pgq._withdrawn, by int8multirange, due timestamptz, now timestamptz
) returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_due timestamptz := greatest(due, old.due_at);
    v_group text;
begin
    perform pgq._record(queue.queue_id, 'postpone', 0, old.ids + by,
                        format('message %s until %s', lower(old.ids), v_due));
    -- In a group backlog, messages wait for their turn and their time. Heads have left the backlog.
    select h.group_key into v_group
    from pgq.message m join pgq.group_head h
        on h.queue_id = queue.queue_id and h.group_key = m.group_key
    where old.grouped and m.id = lower(old.ids) and h.message_id <> m.id;
    if v_group is not null then
        insert into pgq.group_line (queue_id, group_key, message_id, failures, due_at)
        values (queue.queue_id, v_group, lower(old.ids), old.failures, v_due);
    elsif v_due > now then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
        values (queue.queue_id, v_due, old.attempt, old.size, old.grouped, old.failures, old.ids);
    else
        perform pgq._enqueue(queue, old.ids, 0, old.failures, old.grouped, back => false);
    end if;
    return v_due;
end
$$;
comment on function pgq._postpone(
    pgq.queue, pgq._withdrawn, int8multirange, timestamptz, timestamptz) is
    'Puts a message back until the time of other messages with its dedup key.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/publish.sql

-- Publishes one message and returns its id.
--
-- Fast path: a message that needs nothing special, for queues that receive all of the topic, is
-- written here as pgq._publish_direct does it for many. Without arrays and two more function calls
-- it takes three fifths of the instructions (callgrind: 265k instead of 431k).
create or replace function pgq.publish(
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
    deliver_at timestamptz default null,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_id bigint;
    v_xid xid8;
    v_era bigint;
    v_version bigint;
    v_queue_ids int[];
    v_laned boolean;
begin
    if (num_nonnulls(topic, payload) = 2 and priority between -1000 and 1000
        and num_nonnulls(delay, expires_in, group_key, dedup_key, deliver_at) = 0
        and pgq._is_plain(headers) and caller = current_user
        and current_setting('transaction_isolation') = 'read committed')
    then
        v_xid := pg_current_xact_id();  -- before the route is read: see pgq._publish
        -- The latest route of the topic may be stale. The insertion of the ready rows finds out: to
        -- read the version here as well would cost 8 % of a publish.
        select case when r.binding_ids = '{}' and r.fields is null then r.version end,
               r.queue_ids, r.laned
        into v_version, v_queue_ids, v_laned
        from pgq.route r
        where r.topic = publish.topic
        order by r.version desc limit 1;
    end if;
    if v_version is not null then
        v_id := nextval('pgq.message_id');
        v_era := pg_sequence_last_value('pgq.era_number');
        case v_era % 3
            when 0 then
                insert into pgq.message_0 (
                    id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                    correlation_id, published_at, publisher)
                values (v_id, 0, topic, priority, coalesce(headers, '{}'), payload, sender,
                        recipient, reply_to, correlation_id, now(), null);
            when 1 then
                insert into pgq.message_1 (
                    id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                    correlation_id, published_at, publisher)
                values (v_id, 1, topic, priority, coalesce(headers, '{}'), payload, sender,
                        recipient, reply_to, correlation_id, now(), null);
            else
                insert into pgq.message_2 (
                    id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                    correlation_id, published_at, publisher)
                values (v_id, 2, topic, priority, coalesce(headers, '{}'), payload, sender,
                        recipient, reply_to, correlation_id, now(), null);
        end case;
        if pg_sequence_last_value('pgq.era_number') <> v_era then
            perform pgq._copy_late(array[v_id]);
        end if;
        if v_laned then
            perform pgq._deliver_direct(q, array[v_id], array[payload], array[headers], topic,
                                        priority, sender, recipient, reply_to, correlation_id)
            from pgq.queue q
            where q.queue_id = any (v_queue_ids)
              and v_version = (select sum(s.version) from pgq.routing s)
              and (not exists (select from pgq.waiter) or pgq._wake(q.queue_id) is not null);
        else
            insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
            select q, pgq._rank(publish.priority, false, v_id), 0, 1, v_xid, false,
                   int8multirange(int8range(v_id, v_id + 1))
            from unnest(v_queue_ids) q
            where v_version = (select sum(s.version) from pgq.routing s)
              and (not exists (select from pgq.waiter) or pgq._wake(q) is not null);
        end if;
        -- Two IFs, because the second is a query of its own.
        if found then
            return v_id;
        elsif v_version = (select sum(s.version) from pgq.routing s) then
            return v_id;  -- no queue receives the topic now
        end if;
        delete from pgq.message m where m.id = v_id;  -- the route is stale
    end if;
    return (pgq._publish(
        caller, topic, array[payload], array[headers], priority, delay, expires_in, sender,
        recipient, reply_to, correlation_id, group_key,
        case when dedup_key is not null then array[dedup_key] end, deliver_at))[1];
end
$$;
comment on function pgq.publish(
    text, jsonb, jsonb, int, interval, interval, text, text, text, text, text, text, timestamptz,
    pgq.caller) is
    'Publishes one message in the caller''s transaction and returns its id. If a queue has had '
    'the dedup_key with this topic within its window, it does not get the message. If no queue '
    'gets it, nothing is stored, and the id is that of the earlier message. A queue whose option '
    'dedup is replace or postpone replaces or postpones a waiting message with the key. The '
    'message is delivered after the delay, or at the time deliver_at. If that time is infinity, '
    'the message is stored and never delivered.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/publish_batch.sql

-- Publishes many messages in one statement; ids in the order given.
create or replace function pgq.publish_batch(
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
    deliver_at timestamptz default null,
    caller pgq.caller default current_user
) returns setof bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_count int := cardinality(payloads);
begin
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
    return query select unnest(pgq._publish(
        caller, topic, payloads, headers, priority, delay, expires_in, sender, recipient, reply_to,
        correlation_id, group_key, dedup_keys, deliver_at));
end
$$;
comment on function pgq.publish_batch(
    text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    timestamptz, pgq.caller) is
    'Publishes many messages of one topic in one statement, all or none. Returns their ids in the '
    'given order.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/publish_direct.sql

-- Fast path: messages that need nothing special, for queues that receive all of the topic. Writes
-- log and ready rows itself; false, and nothing written, if the route changes meanwhile. The
-- trigger and its transition table cost a third of a batch of ten. The log row goes straight into
-- the slot of the current era, which has no INSERT trigger.
--
-- unnest() is in the select list, here and in pgq._deliver_direct: in FROM, a function's rows are
-- first stored as a whole, which takes a tenth of the instructions of a batch of 1000.
create or replace function pgq._publish_direct(
    route pgq.route, ids bigint[], payloads jsonb[], headers jsonb[], priority int, sender text,
    recipient text, reply_to text, correlation_id text, publisher text, xid xid8
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := ids[1];
    v_high bigint := ids[cardinality(ids)];
    v_era bigint := pg_sequence_last_value('pgq.era_number');
begin
    case v_era % 3
        when 0 then
            insert into pgq.message_0 (
                id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                correlation_id, published_at, publisher)
            select u.id, 0, route.topic, _publish_direct.priority, coalesce(u.header, '{}'),
                   u.payload, _publish_direct.sender, _publish_direct.recipient,
                   _publish_direct.reply_to, _publish_direct.correlation_id, now(),
                   _publish_direct.publisher
            from (select unnest(_publish_direct.ids) as id, unnest(payloads) as payload,
                         unnest(_publish_direct.headers) as header) u;
        when 1 then
            insert into pgq.message_1 (
                id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                correlation_id, published_at, publisher)
            select u.id, 1, route.topic, _publish_direct.priority, coalesce(u.header, '{}'),
                   u.payload, _publish_direct.sender, _publish_direct.recipient,
                   _publish_direct.reply_to, _publish_direct.correlation_id, now(),
                   _publish_direct.publisher
            from (select unnest(_publish_direct.ids) as id, unnest(payloads) as payload,
                         unnest(_publish_direct.headers) as header) u;
        else
            insert into pgq.message_2 (
                id, era, topic, priority, headers, payload, sender, recipient, reply_to,
                correlation_id, published_at, publisher)
            select u.id, 2, route.topic, _publish_direct.priority, coalesce(u.header, '{}'),
                   u.payload, _publish_direct.sender, _publish_direct.recipient,
                   _publish_direct.reply_to, _publish_direct.correlation_id, now(),
                   _publish_direct.publisher
            from (select unnest(_publish_direct.ids) as id, unnest(payloads) as payload,
                         unnest(_publish_direct.headers) as header) u;
    end case;
    -- The slot is locked now: if its era is still the current one, an archiver waits for it.
    if pg_sequence_last_value('pgq.era_number') <> v_era then
        perform pgq._copy_late(_publish_direct.ids);
    end if;
    if route.laned then
        perform pgq._deliver_direct(q, _publish_direct.ids, payloads, _publish_direct.headers,
                                    route.topic, _publish_direct.priority, _publish_direct.sender,
                                    _publish_direct.recipient, _publish_direct.reply_to,
                                    _publish_direct.correlation_id)
        from pgq.queue q
        where q.queue_id = any (route.queue_ids)
          and route.version = (select sum(s.version) from pgq.routing s);
    elsif v_high - v_low + 1 = cardinality(ids) then
        insert into pgq.ready (queue_id, rank, attempt, size, xid, grouped, ids)
        select q.queue_id, pgq._rank(_publish_direct.priority, false, i), 0,
               least(q.set_size, v_high - i + 1), _publish_direct.xid, false,
               int8multirange(int8range(i, least(i + q.set_size, v_high + 1)))
        from pgq.queue q
        cross join lateral generate_series(v_low, v_high, q.set_size) i
        where q.queue_id = any (route.queue_ids)
          and route.version = (select sum(s.version) from pgq.routing s);
    else
        perform pgq._add_ready(q.queue_id, null, _publish_direct.priority, false, 0, null, null,
                               false, _publish_direct.ids, q.set_size)
        from pgq.queue q
        where q.queue_id = any (route.queue_ids)
          and route.version = (select sum(s.version) from pgq.routing s);
    end if;
    -- The log may have been locked by a subscription that adds older messages: then the route has
    -- changed, and these messages are new for it.
    if not found then  -- two IFs, because the second is a query of its own
        if route.version <> (select sum(s.version) from pgq.routing s) then
            delete from pgq.message m where m.id = any (_publish_direct.ids);
            return false;
        end if;
    end if;
    if exists (select from pgq.waiter) then
        perform pgq._wake(q) from unnest(route.queue_ids) q;
    end if;
    return true;
end
$$;
comment on function pgq._publish_direct(
    pgq.route, bigint[], jsonb[], jsonb[], int, text, text, text, text, text, xid8) is
    'Publishes messages without special properties, without the trigger.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/publish_json.sql

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
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/publish_messages.sql

-- Publishes n messages of a topic and returns their ids in the order given; for a duplicate, the id
-- of the first message with its dedup key. The common part of publish and publish_batch.
create or replace function pgq._publish(
    caller name, topic text, payloads jsonb[], headers jsonb[], priority int, delay interval,
    expires_in interval, sender text, recipient text, reply_to text, correlation_id text,
    group_key text, dedup_keys text[], deliver_at timestamptz
) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_publisher text;
    v_xid xid8;
    v_plain boolean;
    v_route pgq.route;
    v_ids bigint[];
    v_firsts bigint[];
    v_now timestamptz;
    v_key record;
begin
    if num_nonnulls(topic, priority) < 2 or array_position(payloads, null) is not null
       or priority not between -1000 and 1000 or delay < interval '0'
       or expires_in <= interval '0' or num_nonnulls(delay, deliver_at) = 2
    then
        perform pgq._refuse_publish(topic, payloads, priority, delay, deliver_at);
    end if;
    -- Rights before the route: errors must not reveal which topics exist.
    if not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, topic);
        v_publisher := caller::text;
    end if;
    -- Take a transaction id before the route is read: changes of a queue wait for older ones.
    v_xid := pg_current_xact_id();
    if cardinality(payloads) = 1 then
        v_ids := array[nextval('pgq.message_id')];
    else
        v_ids := array(
            select nextval('pgq.message_id') from generate_series(1, cardinality(payloads)));
    end if;
    v_plain := num_nonnulls(delay, expires_in, group_key, dedup_keys, deliver_at) = 0
        and current_setting('transaction_isolation') = 'read committed';
    if v_plain and cardinality(headers) = 1 then
        v_plain := pgq._is_plain(headers[1]);
    elsif v_plain then
        v_plain := not exists (
            select from (select unnest(_publish.headers) as header) h
            where not pgq._is_plain(h.header));
    end if;
    if v_plain then
        v_route := pgq._route_of(topic, v_publisher is null);
        if v_route.binding_ids = '{}' and v_route.fields is null and pgq._publish_direct(
            v_route, v_ids, payloads, headers, priority, sender, recipient, reply_to,
            correlation_id, v_publisher, v_xid)
        then
            return v_ids;
        end if;
    end if;

    v_firsts := v_ids;
    if dedup_keys is not null then
        -- All transactions take keys in the same order, so that two batches cannot deadlock.
        for v_key in
            select u.key, u.i from unnest(dedup_keys) with ordinality u (key, i)
            where u.key is not null order by u.key, u.i
        loop
            v_firsts[v_key.i] := pgq._key_owner(topic, v_key.key, v_ids[v_key.i]);
        end loop;
    end if;
    v_now := pgq.now();  -- once, so that messages that become due or expire together share rows
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, publisher)
    select u.id, _publish.topic, _publish.priority, coalesce(u.header, '{}'), u.payload,
           _publish.sender, _publish.recipient, _publish.reply_to, _publish.correlation_id,
           _publish.group_key, u.key, coalesce(_publish.deliver_at, v_now + _publish.delay),
           v_now + _publish.expires_in, v_publisher
    from unnest(v_ids, v_firsts, payloads, _publish.headers, dedup_keys)
        u (id, first, payload, header, key)
    where u.id = u.first;
    if dedup_keys is not null then
        v_firsts := pgq._key_holders(topic, dedup_keys, v_firsts);
    end if;
    return v_firsts;
end
$$;
comment on function pgq._publish(
    name, text, jsonb[], jsonb[], int, interval, interval, text, text, text, text, text, text[],
    timestamptz) is
    'Publishes messages of one topic and returns their ids.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/publish_staged.sql

-- Publishes the messages staged under these tokens, all or none; an epoch of a writer only once.
create or replace function pgq.publish_staged(
    tokens uuid[],
    size bigint default null,
    writer text default null,
    epoch bigint default null,
    query text default null,
    anew boolean default false,
    caller pgq.caller default current_user
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
    v_token uuid;
    v_size bigint;
    v_first int;
    v_last int;
    v_publisher text;
begin
    if not pgq._is_owner(caller) then
        v_publisher := caller::text;  -- the trigger checks its rights
    end if;
    if (writer is null) <> (epoch is null) then
        raise exception 'writer and epoch belong together'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give both, so that the same epoch is published once, or none of them.';
    end if;
    if writer is not null and not pgq._begin_epoch(writer, epoch, query, anew, caller) then
        delete from pgq.staged s where s.token = any (tokens);
        return 0::bigint;
    end if;
    -- Read by the index, which has them in order: sorting a million messages takes longer than
    -- publishing them.
    v_count := 0::bigint;
    foreach v_token in array tokens loop
        -- Another call that publishes the token waits here, and then finds nothing.
        perform from pgq.staged s where s.token = v_token order by s.position limit 1 for update;
        select coalesce(min(s.position), 0), coalesce(max(s.position), -1) into v_first, v_last
        from pgq.staged s where s.token = v_token;
        -- In portions that the route trigger can keep in memory.
        for v_low in v_first .. v_last by 50000 loop
            insert into pgq.message (
                topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
                group_key, dedup_key, deliver_at, expires_at, publisher)
            select s.topic, s.priority, s.headers, s.payload, s.sender, s.recipient, s.reply_to,
                   s.correlation_id, s.group_key, s.dedup_key, s.deliver_at, s.expires_at,
                   v_publisher
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
comment on function pgq.publish_staged(
    uuid[], bigint, text, bigint, text, boolean, pgq.caller) is
    'Publishes the messages that were inserted into pgq.staged with these tokens, in one '
    'transaction, in the order of the tokens. Returns how many. With size: 55000 unless there are '
    'exactly that many. With a writer and an epoch, each epoch is published once: a call with the '
    'writer''s last epoch publishes nothing and returns 0. 55000 for an older epoch, and for '
    'another query than before unless it starts again. Roles other than the owner need the right '
    'to publish to the topics, and cannot use the writers of other roles.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/receivers.sql

-- The queues with dedup = keep that receive messages of a topic, and the dedup window of each.
-- A route whose bindings are found by anchors does not list the queues: it would have to list
-- thousands.
create or replace function pgq._receivers(route pgq.route)
returns table (queue_id int, span interval)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if route.fields is null then
        return query select u.* from unnest(route.receivers, route.windows) u;
    else
        return query
            select q.queue_id, pgq._bounded(q.dedup_window, pgq._limit('policy_years'))
            from pgq.queue q
            where q.dedup = 'keep' and q.queue_id in (
                select b.queue_id from pgq.binding b
                where not b.pending
                  and (b.regex is null and b.pattern = route.topic or route.topic ~ b.regex));
    end if;
end
$$;
comment on function pgq._receivers(pgq.route) is
    'The queues with dedup = keep that receive messages of a topic, and their dedup windows.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/refuse_message.sql

-- Raises the error for an inserted message with an invalid priority or invalid headers.
create or replace function pgq._refuse_message(priority int, headers jsonb) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if priority not between -1000 and 1000 then
        perform pgq._refuse_publish('', '{}', priority, null);
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
    'Raises the error for an inserted message with an invalid priority or invalid headers.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/refuse_partition.sql

-- The default of columns of the partitions of the log: an INSERT that names a partition is not a
-- publish, because no trigger routes it. A restored dump gives all columns.
create or replace function pgq._refuse_partition() returns bigint
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'a partition of the log routes nothing'
        using errcode = 'feature_not_supported',
              hint = 'Insert into pgq.message, or use pgq.publish.';
end
$$;
comment on function pgq._refuse_partition() is 'Rejects an INSERT into a partition of the log.';

-- Only once: it locks the partition.
do $$
declare
    v_table text;
begin
    foreach v_table in array '{message_0,message_1,message_2}'::pg_catalog.text[] loop
        continue when exists (
            select from pg_catalog.pg_attrdef d
            where d.adrelid operator(pg_catalog.=) pg_catalog.format('pgq.%I', v_table)::regclass
              and pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '_refuse_partition');
        execute pg_catalog.format(
            'alter table pgq.%I alter id set default pgq._refuse_partition(), '
            'alter published_at set default pg_catalog.to_timestamp(pgq._refuse_partition()), '
            'alter publisher set default pgq._refuse_partition()::pg_catalog.text', v_table);
    end loop;
end
$$;
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/refuse_publish.sql

-- Raises the error for bad arguments of publish or publish_batch.
create or replace function pgq._refuse_publish(
    topic text, payloads jsonb[], priority int, delay interval,
    deliver_at timestamptz default null
) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if topic is null then
        perform pgq._check_topic(topic);
    elsif array_position(payloads, null) is not null then
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
    elsif num_nonnulls(delay, deliver_at) = 2 then
        raise exception 'a message has a delay or a deliver_at, not both'
            using errcode = 'invalid_parameter_value',
                  hint = 'delay counts from now, deliver_at is a point in time.';
    else
        raise exception 'expires_in must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for a message that does not expire.';
    end if;
end
$$;
comment on function pgq._refuse_publish(text, jsonb[], int, interval, timestamptz) is
    'Raises the error for bad arguments of publish.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/replace.sql

-- Ends a waiting message that was taken out of its queue, because another message has its dedup
-- key.
create or replace function pgq._replace(
    queue pgq.queue, old pgq._withdrawn, by bigint, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._record(queue.queue_id, 'replace', 0, old.ids, 'by message ' || by);
    perform pgq._wake_results(old.ids);
    if old.grouped then
        perform pgq._advance_groups(queue, old.ids, now);
    end if;
end
$$;
comment on function pgq._replace(pgq.queue, pgq._withdrawn, bigint, timestamptz) is
    'Ends a message that another replaces.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/reply.sql

-- Publishes the answer to a message, to its reply_to topic.
create or replace function pgq.reply(
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
    -- For roles that do not consume the message, it does not exist.
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
    -- The asking role needs the right to publish to reply_to itself: an answer by the owner must
    -- not send a message to a topic that the asking role cannot publish to.
    if v_question.publisher is not null then
        if to_regrole(quote_ident(v_question.publisher)) is null then
            raise exception 'the role that published message % is gone', message_id
                using errcode = 'insufficient_privilege',
                      hint = 'Publish the answer with pgq.publish, if you know where it belongs.';
        elsif not pgq._is_owner(v_question.publisher::name) then
            perform pgq._require_topic(v_question.publisher::name, v_question.reply_to);
        end if;
    end if;
    return pgq.publish(
        topic => v_question.reply_to, payload => reply.payload, headers => reply.headers,
        sender => coalesce(reply.sender, v_question.recipient), recipient => v_question.sender,
        correlation_id => coalesce(v_question.correlation_id, reply.message_id::text),
        caller => reply.caller);
end
$$;
comment on function pgq.reply(bigint, jsonb, jsonb, text, pgq.caller) is
    'Publishes a reply to the reply_to topic of a message, addressed to its sender, with its '
    'correlation_id (or its id, if it has none). 42501 unless the role that published the request '
    'may publish to that topic, too. Returns the id of the reply.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/route.sql

-- Routes the messages of an INSERT or COPY to the queues that receive them.
create or replace function pgq._route() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_batch record;
    v_duplicates bigint[] := '{}';
    v_had_ids bigint[];
    v_had_queues int[];
    v_topic record;
    v_grouped record;
    v_grouped_ids bigint[] := '{}';
    v_grouped_queues int[] := '{}';
begin
    select count(*) as size, min(n.id) as low, max(n.id) as high,
           array_agg(distinct n.era) as slots, min(n.publisher) as publisher,
           bool_or(n.dedup_key is not null) as keyed, bool_or(n.headers ? 'route') as suggested,
           min(n.priority) as priority,
           min(n.priority) = max(n.priority)
           and not bool_or(num_nonnulls(n.deliver_at, n.expires_at, n.group_key) > 0) as alike
    into v_batch
    from new_message n;
    if v_batch.size = 0 then
        return null;
    end if;
    -- Rights before the route: errors must not reveal which topics exist. A role that inserts
    -- directly is the publisher of all messages; here current_user is the owner.
    if v_batch.publisher = current_user or pgq._is_owner(v_batch.publisher) then
        perform pgq._check_ids(v_batch.low, v_batch.high, v_batch.slots);
    elsif v_batch.publisher is not null then
        perform pgq._require_topic(v_batch.publisher, t.topic)
        from (select distinct n.topic from new_message n) t;
    end if;
    if v_batch.slots <> array[pg_sequence_last_value('pgq.era_number') % 3]::smallint[] then
        perform pgq._copy_late(array(
            select n.id from new_message n
            where n.era <> pg_sequence_last_value('pgq.era_number') % 3));
    end if;
    perform pgq._refuse_message(n.priority, n.headers) from new_message n
    where n.priority not between -1000 and 1000 or jsonb_typeof(n.headers) <> 'object'
       or n.headers @? '$.*.type() ? (@ == "array" || @ == "object")';
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq._refuse_old_routing();
    end if;
    if v_batch.keyed then
        select coalesce(array_agg(d.message_id) filter (where d.queue_id is null), '{}'),
               array_agg(d.message_id) filter (where d.queue_id is not null),
               array_agg(d.queue_id) filter (where d.queue_id is not null)
        into v_duplicates, v_had_ids, v_had_queues
        from pgq._duplicates(array(
            select n.id from new_message n
            where n.dedup_key is not null and n.deliver_at is distinct from 'infinity')) d;
    end if;

    for v_topic in
        -- A message with deliver_at = infinity is stored and never delivered.
        select n.topic as name, array_agg(n.id order by n.id) as ids from new_message n
        where n.deliver_at is distinct from 'infinity'
        group by 1 order by 1
    loop
        -- EXCEPT compares sets of ids: an array would be searched from its beginning for each row.
        if v_duplicates <> '{}' then
            v_topic.ids := array(
                select unnest(v_topic.ids) except select unnest(v_duplicates) order by 1);
            continue when v_topic.ids = '{}';
        end if;
        v_grouped := pgq._route_topic(
            v_topic.name, v_topic.ids, v_had_ids, v_had_queues, v_batch.keyed,
            case when v_batch.alike then v_batch.priority end,
            coalesce(v_batch.publisher = current_user, true), v_now);
        v_grouped_ids := v_grouped_ids || v_grouped.ids;
        v_grouped_queues := v_grouped_queues || v_grouped.queues;
    end loop;
    if v_grouped_ids <> '{}' then
        perform pgq._join_queues(v_grouped_queues, v_grouped_ids, v_now);
    end if;
    if v_batch.suggested then
        perform pgq._suggest(n.id, v_now) from new_message n
        where n.headers ? 'route' and n.deliver_at is distinct from 'infinity'
          and n.id <> all (v_duplicates);
    end if;
    return null;
end
$$;
comment on function pgq._route() is
    'Routes the messages of an INSERT or COPY to the queues that receive them.';

create or replace trigger route after insert on pgq.message
    referencing new table as new_message
    for each statement execute function pgq._route();
alter table pgq.message enable always trigger route;
comment on trigger route on pgq.message is 'Any INSERT or COPY is a publish.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/route_of.sql

-- The queues that receive a topic: from the routing cache, or computed now; QU005 if there is none.
-- Only this function and the fast path of publish look up routes. suggest: the caller is the
-- owner, who may see similar topics.
create or replace function pgq._route_of(topic text, suggest boolean default false)
returns pgq.route
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route;
begin
    select r.* into v_route from pgq.route r
    where r.topic = _route_of.topic and r.version = (select sum(s.version) from pgq.routing s)
    limit 1;  -- two publishers may have stored it at once
    if found then
        return v_route;
    end if;
    perform pgq._check_topic(topic);
    -- One statement, so one snapshot: a route must not have a later version than its bindings.
    select _route_of.topic, min(r.version),
           coalesce(array_agg(b.queue_id) filter (where b.plain and b.mode = 'queue'), '{}'),
           coalesce(array_agg(b.binding_id) filter (where not b.plain and b.mode = 'queue'), '{}'),
           coalesce(array_agg(b.queue_id) filter (where b.first and b.dedup = 'keep'), '{}'),
           coalesce(array_agg(pgq._bounded(b.dedup_window, pgq._limit('policy_years')))
                        filter (where b.first and b.dedup = 'keep'), '{}'),
           null::pgq._field[], null::text[],
           coalesce(bool_or(b.laned) filter (where b.plain and b.mode = 'queue'), false),
           bool_or(b.dedup <> 'keep')
    into v_route
    from (select sum(s.version) as version from pgq.routing s) r
    join (
        select c.binding_id, c.queue_id, q.mode, q.dedup_window, q.dedup,
               q.lane_keys is not null as laned,
               c.path is null
               and (q.lane_keys is null
                    or bool_and(q.lane_keys is not null or q.mode = 'archive') over ())
               and not bool_or(c.counted) over (partition by c.queue_id) as plain,
               -- A binding without a filter makes the queue's others superfluous, unless counted.
               c.counted or not bool_or(c.path is null) over (partition by c.queue_id)
               or row_number() over (
                   partition by c.queue_id order by c.path is not null, c.binding_id) = 1
                   as needed,
               row_number() over (
                   partition by c.queue_id order by c.path is not null, c.binding_id) = 1 as first
        from pgq.binding c join pgq.queue q on q.queue_id = c.queue_id
        where ((c.regex is null and c.pattern = topic) or topic ~ c.regex) and not c.pending
    ) b on b.needed;
    if v_route.version is null then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = pgq._did_you_mean(
                             case when suggest then current_user end, topic, true)
                      || 'Create one with pgq.create_queue(queue) or '
                         'pgq.subscribe(queue, pattern).';
    end if;
    if cardinality(v_route.binding_ids) >= pgq._limit('standing_filters') then
        v_route := pgq._index_route(v_route);
    end if;
    insert into pgq.route values (v_route.*);
    return v_route;
end
$$;
comment on function pgq._route_of(text, boolean) is 'The queues that receive a topic, or QU005.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/route_topic.sql

-- Delivers messages of one topic to the queues that receive them. Queues that had a message with
-- the same dedup key are in had_queues, with the message in had_ids (see pgq._duplicates). A
-- priority is given if the messages share it and need nothing special. Returns the messages of
-- ordering groups, with their queues, for _join_queues when all topics are done.
create or replace function pgq._route_topic(
    topic text, message_ids bigint[], had_ids bigint[], had_queues int[], keyed boolean,
    priority int, owner boolean, now timestamptz, out ids bigint[], out queues int[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route;
    v_found pgq._hits;
    v_match record;
    v_queue pgq.queue;
    v_ids bigint[];
begin
    ids := '{}';
    queues := '{}';
    loop
        v_route := pgq._route_of(topic, owner);
        v_found := case when v_route.fields is not null then
            pgq._find_bindings(v_route, message_ids, now) end;
        for v_match in
            -- Filter by filter: PostgreSQL caches 32 compiled regular expressions, so to test all
            -- filters on each message would take ten times as long if more have patterns.
            with message as materialized (
                select m from unnest(message_ids) u (id) join pgq.message m on m.id = u.id
                where v_route.binding_ids <> '{}'
            ), hit as materialized (
                select b.queue_id, b.binding_id, b.counted, n.id
                from pgq.binding b
                -- decompressed once for all messages: see pgq._find_filter
                cross join lateral (select (array[b.path])[1] as path offset 0) f
                cross join lateral (
                    select (c.m).id from message c
                    where pgq._matches(f.path, b.scope, c.m, 1, now) offset 0) n
                where b.binding_id = any (v_route.binding_ids)
                  and v_route.version = (select sum(s.version) from pgq.routing s)
                union all
                select b.queue_id, b.binding_id, b.counted, u.id
                from unnest(v_found.binding_ids, v_found.message_ids) u (binding_id, id)
                join pgq.binding b on b.binding_id = u.binding_id
                where v_route.version = (select sum(s.version) from pgq.routing s)
            ), counted as (
                insert into pgq.binding_hit (binding_id, matches, last_at)
                select h.binding_id, count(*), now from hit h where h.counted group by 1
            )
            select r.ids, (  -- not a join: that would read all queues
                       select q from pgq.queue q where q.queue_id = r.queue_id) as queue
            from (
                select h.queue_id, array_agg(distinct h.id) as ids from hit h group by 1
                union all
                select u, message_ids from unnest(v_route.queue_ids) u
                where v_route.version = (select sum(s.version) from pgq.routing s)
            ) r
            order by r.queue_id
        loop
            v_queue := v_match.queue;
            continue when v_queue.queue_id is null;  -- dropped just now
            v_ids := v_match.ids;
            if v_queue.queue_id = any (had_queues) then
                v_ids := pgq._without(v_ids, had_ids, had_queues, v_queue.queue_id);
            elsif keyed and v_queue.dedup <> 'keep' then
                v_ids := pgq._settle_keys(v_queue, v_ids, now);
                v_queue.set_size := 1;  -- the next message with the key finds the row by its rank
            end if;
            continue when v_ids = '{}';
            if priority is not null and v_queue.lane_keys is null then
                perform pgq._add_ready(v_queue.queue_id, null, priority, false, 0, null, null,
                                       false, v_ids, v_queue.set_size);
            else
                v_ids := pgq._deliver(v_queue, v_ids, now);
                ids := ids || v_ids;
                queues := queues || array_fill(v_queue.queue_id, array[cardinality(v_ids)]);
            end if;
            perform pgq._wake(v_queue.queue_id);
        end loop;
        -- Nothing was routed if the bindings have changed since the route was read: try again.
        exit when found or v_route.version = (select sum(s.version) from pgq.routing s);
    end loop;
end
$$;
comment on function pgq._route_topic(
    text, bigint[], bigint[], int[], boolean, int, boolean, timestamptz) is
    'Delivers messages of one topic to the queues that receive them.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/settle_keys.sql

-- Which of these messages go to a queue that replaces or postpones by dedup key. An earlier message
-- that was delivered already stays as it is, and the new one is delivered too.
create or replace function pgq._settle_keys(queue pgq.queue, ids bigint[], now timestamptz)
returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_window interval := pgq._bounded(queue.dedup_window, pgq._limit('policy_years'));
    v_replace boolean := queue.dedup = 'replace';
    v_set record;
    v_stays int;
    v_id bigint;
    v_due timestamptz;
    v_key pgq.dedup;
    v_old pgq._withdrawn;
    v_gone int8multirange[] := '{}';
    v_all int8multirange;
begin
    if v_window <= interval '0' then
        return ids;  -- with such a window every message is the first, as everywhere
    end if;
    -- All transactions take keys in the same order, so that two batches cannot deadlock. Each key
    -- once: the row of a key becomes slow if it changes often in a transaction.
    for v_set in
        select m.topic, m.dedup_key, array_agg(m.id order by m.id) as ids,
               array_agg(greatest(m.deliver_at, now) order by m.id) as dues
        from unnest(_settle_keys.ids) i join pgq.message m on m.id = i
        where m.dedup_key is not null group by 1, 2 order by 1, 2
    loop
        -- Of several messages with a key, replace keeps the last and postpone the first.
        v_stays := case when v_replace then cardinality(v_set.ids) else 1 end;
        v_id := v_set.ids[v_stays];
        v_due := v_set.dues[v_stays];
        v_key := pgq._lock_key(
            queue.queue_id, v_set.topic, v_set.dedup_key, v_id, v_due, v_due + v_window);
        v_old := null;
        if v_key.until > now then
            select * into v_old
            from pgq._take_waiting(queue.queue_id, v_key.message_id, v_key.due_at);
        end if;
        if v_old.ids is not null and v_replace then
            perform pgq._replace(queue, v_old, v_id, now);
        elsif v_old.ids is not null then
            v_due := pgq._postpone(
                queue, v_old, pgq._set_of(v_set.ids),
                (select max(d) from unnest(v_set.dues) d), now);
            v_gone := v_gone || int8multirange(int8range(v_id, v_id + 1));
            v_id := v_key.message_id;
        end if;
        if cardinality(v_set.ids) > 1 then
            v_old := null;
            v_old.ids := pgq._set_of(array_remove(v_set.ids, v_set.ids[v_stays]));
            v_gone := v_gone || v_old.ids;
            if v_replace then
                perform pgq._replace(queue, v_old, v_id, now);
            end if;
        end if;
        update pgq.dedup d set message_id = v_id, due_at = v_due, until = v_due + v_window
        where v_key.message_id is not null and d.queue_id = queue.queue_id
          and d.topic = v_set.topic and d.dedup_key = v_set.dedup_key;
    end loop;
    if v_gone = '{}' then
        return ids;
    end if;
    select range_agg(g) into v_all from unnest(v_gone) g;
    return array(select i from unnest(_settle_keys.ids) i where not v_all @> i);
end
$$;
comment on function pgq._settle_keys(pgq.queue, bigint[], timestamptz) is
    'Which messages go to a queue that replaces or postpones by dedup key.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/suggest.sql

-- Honours the header "route": queues that accept suggestions and are named there, at most 8, get
-- the message too, unless a binding of theirs receives it. The header comes from outside, so names
-- of other queues are ignored without an error.
create or replace function pgq._suggest(message_id bigint, now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message pgq.message;
    v_queue pgq.queue;
    v_grouped bigint[];
begin
    select m.* into strict v_message from pgq.message m where m.id = _suggest.message_id;
    for v_queue in
        select q.* from pgq.queue q
        where q.suggestions and q.mode = 'queue'
          and q.name = any (
              (string_to_array(
                  replace(left(v_message.headers ->> 'route', 2048), ' ', ''), ','))[1:8])
          and not pgq._is_received(array[q.queue_id], v_message)
        order by q.queue_id
    loop
        v_grouped := pgq._deliver(v_queue, array[v_message.id], now);
        if v_grouped <> '{}' then
            perform pgq._join_queue(v_queue, v_grouped, now);
        end if;
        perform pgq._wake(v_queue.queue_id);
    end loop;
end
$$;
comment on function pgq._suggest(bigint, timestamptz) is
    'Delivers a message to the queues that its header "route" names and that accept suggestions.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/take_key.sql

-- The queues for which this message is the first of its topic with the key, each within its own
-- window. Queues that replace or postpone are left out: see _settle_keys. With a window of zero
-- every message is the first.
create or replace function pgq._take_key(topic text, dedup_key text, message_id bigint)
returns int[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_route pgq.route := pgq._route_of(topic);
    v_now timestamptz := pgq.now();
    v_queues int[];
begin
    with taken as (
        -- Waits for another transaction that publishes the key, until it is known which is first.
        insert into pgq.dedup as d (queue_id, topic, dedup_key, message_id, until)
        select u.queue_id, _take_key.topic, _take_key.dedup_key, _take_key.message_id,
               v_now + u.span
        from pgq._receivers(v_route) u
        order by u.queue_id
        on conflict on constraint dedup_pkey do update
        set message_id = excluded.message_id, until = excluded.until
        where d.until <= v_now or d.message_id = excluded.message_id
        returning d.queue_id
    )
    select coalesce(array_agg(t.queue_id), '{}') into v_queues from taken t;
    return v_queues;
end
$$;
comment on function pgq._take_key(text, text, bigint) is
    'The queues for which the message is the first of its topic with this dedup key.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/take_staged.sql

-- Takes out the rows that were staged under these tokens, for a table of the caller.
create or replace function pgq.take_staged(tokens uuid[], size bigint) returns setof jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set work_mem = '64MB'
set jit = off
as $$
declare
    v_count bigint;
begin
    return query
        select s.payload from unnest(tokens) t (token)
        cross join lateral (
            select i.payload from pgq.staged i where i.token = t.token order by i.position) s;
    get diagnostics v_count = row_count;
    if v_count is distinct from size then
        raise exception 'only % of % rows are staged', v_count, size
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'The server was restarted after a crash, or they were staged more than a '
                      'day ago. Stage them again.';
    end if;
    if v_count < 10000 or not pgq._empty_staged(tokens) then
        delete from pgq.staged s where s.token = any (tokens);
    end if;
end
$$;
comment on function pgq.take_staged(uuid[], bigint) is
    'Returns the payloads that were inserted into pgq.staged with these tokens, and deletes them. '
    'The caller writes them into a table in the same transaction. 55000 unless there are as many '
    'as size.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/take_waiting.sql

-- Takes a message that was never delivered out of a queue; nothing if it does not wait there, or if
-- another transaction has it at the moment: a claim, or a publisher of its ordering group. Never
-- waits for a lock. Messages with a dedup key have ready rows of their own in queues that replace
-- or postpone, so a rank and a time find them, whatever the backlog.
create or replace function pgq._take_waiting(queue_id int, message_id bigint, due timestamptz)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_message record;
    v_ids int8multirange := int8multirange(int8range(message_id, message_id + 1));
    v_places tid[];
begin
    select m.priority, m.group_key into v_message from pgq.message m
    where m.id = _take_waiting.message_id;
    if v_message.group_key is not null then
        -- The group must not move on meanwhile.
        perform from pgq.group_head h
        where h.queue_id = _take_waiting.queue_id and h.group_key = v_message.group_key
        for update skip locked;
        if not found then
            return;
        end if;
        return query
            delete from pgq.group_line g
            where g.queue_id = _take_waiting.queue_id and g.group_key = v_message.group_key
              and g.message_id = _take_waiting.message_id
            returning g.due_at, 0, g.failures, true, 1, v_ids;
        if found then
            return;
        end if;
    end if;
    -- Messages move from the scheduled rows to the ready rows: in this order none is missed.
    v_places := array(
        select s.ctid from pgq.scheduled s
        where s.queue_id = _take_waiting.queue_id and s.due_at = due and s.attempt = 0
          and s.ids @> _take_waiting.message_id);
    if v_places <> '{}' then
        return query select * from pgq._take_scheduled(queue_id, v_places, array[v_ids], null);
        return;
    end if;
    v_places := array(
        select r.ctid from pgq.ready r
        where r.queue_id = _take_waiting.queue_id and r.attempt = 0
          and r.rank in (pgq._rank(v_message.priority, false, _take_waiting.message_id),
                         pgq._rank(v_message.priority, true, _take_waiting.message_id))
          and r.ids @> _take_waiting.message_id);
    return query select * from pgq._take_ready(queue_id, v_places, array[v_ids], null);
end
$$;
comment on function pgq._take_waiting(int, bigint, timestamptz) is
    'Takes a message that was never delivered out of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/without.sql

-- The ids without those that the queue has had; had and queues are parallel arrays.
create or replace function pgq._without(
    ids bigint[], had bigint[], queues int[], queue_id int
) returns bigint[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select unnest(ids)
        except
        select u.id from unnest(had, queues) u (id, queue_id)
        where u.queue_id = _without.queue_id
        order by 1);
end
$$;
comment on function pgq._without(bigint[], bigint[], int[], int) is
    'The ids without those that the queue has had.';
$pgq_script$;
    execute $pgq_script$
-- sql/40_publish/writer_epoch.sql

-- The last epoch that a writer has published. Checks that the caller may publish to the topic.
create or replace function pgq.writer_epoch(
    writer text, topic text default null, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if topic is not null and not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, topic);
    end if;
    if topic is not null and not exists (
        select from pgq.binding b
        where (b.regex is null and b.pattern = writer_epoch.topic) or writer_epoch.topic ~ b.regex)
    then
        raise exception 'no queue receives topic "%"', topic
            using errcode = 'QU005',
                  hint = pgq._did_you_mean(caller, topic, true)
                      || 'Create one with pgq.create_queue(queue) or '
                         'pgq.subscribe(queue, pattern).';
    end if;
    return (select w.epoch from pgq.writer w
            where w.writer = writer_epoch.writer
              and (w.role = caller or pgq._is_owner(caller)));
end
$$;
comment on function pgq.writer_epoch(text, text, pgq.caller) is
    'The last epoch that a writer of the caller has published with pgq.publish_staged; null: '
    'none. With a topic: QU005 if no queue receives the topic, 42501 if the caller may not '
    'publish to it.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/check_every.sql

-- Whether a schedule can have this interval: one second to ten years, without negative parts.
create or replace function pgq._is_step(every interval) returns boolean
language sql immutable parallel safe
return every >= interval '1 s' and every <= make_interval(years => pgq._limit('policy_years'))
    and extract(year from every) >= 0 and extract(month from every) >= 0
    and extract(day from every) >= 0 and date_trunc('day', every) <= every;
comment on function pgq._is_step(interval) is 'Whether a schedule can have this interval.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/check_schedule.sql

-- Raises 22023 unless the schedule makes sense.
create or replace function pgq._check_schedule(schedule pgq.schedule) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_every interval := schedule.every;
    v_problem text;
    v_hint text;
begin
    case
        when schedule.name is null or schedule.name = '' or length(schedule.name) > 255 then
            v_problem := 'a schedule needs a name of at most 255 characters';
            v_hint := 'The same name again changes the schedule.';
        when num_nonnulls(schedule.cron, v_every) <> 1 then
            v_problem := 'a schedule needs either cron or every';
            v_hint := 'Such as cron => ''30 2 * * *'', or every => ''15 min''.';
        when v_every is not null and not pgq._is_step(v_every) then
            v_problem := format('every must be at least one second, and at most %s years',
                                pgq._limit('policy_years'));
            v_hint := 'Such as ''15 min'', ''1 day'' or ''2 weeks''.';
        when schedule.missed is null or schedule.missed not in ('skip', 'one', 'all') then
            v_problem := format('unknown missed "%s"', schedule.missed);
            v_hint := 'Use skip, one or all: what to do with missed runs.';
        -- By name: an abbreviation or an offset has no clock changes. (The view takes 50 ms.)
        when schedule.time_zone is null or schedule.time_zone <> 'UTC' and not exists (
            select from pg_timezone_names z where lower(z.name) = lower(schedule.time_zone))
        then
            v_problem := format('unknown time zone "%s"', schedule.time_zone);
            v_hint := 'Use a name of pg_timezone_names, such as Europe/Berlin or UTC.';
        when schedule.payload is null then
            perform pgq._refuse_publish(schedule.topic, '{null}', 0, null);
        when schedule.priority is null or schedule.priority not between -1000 and 1000 then
            perform pgq._refuse_publish(schedule.topic, '{}', schedule.priority, null);
        when schedule.expires_in <= interval '0' then
            perform pgq._refuse_publish(schedule.topic, '{}', 0, null);
        else
            perform pgq._refuse_message(schedule.priority, schedule.headers);
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_schedule(pgq.schedule) is
    'Raises 22023 unless the schedule is valid.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/clock_changes.sql

-- Whether the clocks of a time zone are set forward or back within four hours of a moment.
create or replace function pgq._clock_changes(moment timestamptz, time_zone text) returns boolean
language sql stable parallel safe
return (moment - interval '4 h') at time zone time_zone + interval '8 h'
    <> (moment + interval '4 h') at time zone time_zone;
comment on function pgq._clock_changes(timestamptz, text) is
    'Whether the clocks of a time zone change near a moment.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/cron_after.sql

-- The first moment after the given one that a cron expression chooses, in a time zone.
--
-- When clocks go forward, a skipped local time runs as much later as the clocks were set forward:
-- 02:30 is 03:30 that day. When clocks go back, a local time occurs twice. An expression for every
-- hour then runs both times, any other only the first time.
create or replace function pgq._cron_after(cron pgq._cron, time_zone text, after timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_local timestamp := after at time zone time_zone;
    v_base timestamptz;
    v_at timestamptz;
    v_first timestamptz;
begin
    -- Near a change of the clocks local times are not in the order of moments: begin before it.
    if pgq._clock_changes(after, time_zone) then
        v_local := v_local - interval '4 h';
    end if;
    loop
        v_local := pgq._cron_local(cron, v_local);
        v_base := v_local at time zone time_zone;
        exit when v_base is null or v_base - interval '4 h' > v_first;
        -- The moments at which clocks show the local time: one, two, or none.
        select case when cardinality(cron.hours) = 24
                    then min(c.at) filter (where c.at > after)
                    else min(c.at) end
        into v_at
        from (select v_base + s as at, s
              from unnest('{0,-30 min,-1 h,-2 h,30 min,1 h,2 h}'::interval[]) s) c
        where c.s = interval '0' or c.at at time zone time_zone = v_local;
        if v_at > after then
            v_first := least(v_first, v_at);
            exit when not pgq._clock_changes(v_at, time_zone);
        end if;
    end loop;
    return v_first;
end
$$;
comment on function pgq._cron_after(pgq._cron, text, timestamptz) is
    'The next time of a cron expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/cron_field.sql

-- The values of one field of a cron expression, in order; 22023 if it makes no sense. Names stand
-- for the numbers from low on.
create or replace function pgq._cron_field(
    cron text, field text, name text, low int, high int, names text[] default '{}'
) returns int[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_item text;
    v_part text[];
    v_ends int[];
    v_step int;
    v_values int[] := '{}';
    v_problem text;
begin
    foreach v_item in array string_to_array(lower(field), ',') loop
        v_part := regexp_match(v_item, '^(?:([*])|([a-z]+|[0-9]{1,4})(?:-([a-z]+|[0-9]{1,4}))?)'
            '(?:/([0-9]{1,4}))?$');
        v_ends := array(
            select case when e ~ '^[0-9]' then e::int else array_position(names, e) + low - 1 end
            from unnest(v_part[2:3]) with ordinality u (e, i) where e is not null order by i);
        v_step := coalesce(v_part[4]::int, 1);
        case
            when v_part is null or array_position(v_ends, null) is not null then
                v_problem := format('"%s" is no %s', v_item, name);
            when v_step not between 1 and high then
                v_problem := format('the step of "%s" is not between 1 and %s', v_item, high);
            when v_part[1] is not null then
                v_ends := array[low, high];
            when v_part[3] is null then
                v_ends[2] := case when v_part[4] is null then v_ends[1] else high end;
            -- A week may end on its first day: fri-sun.
            when name = 'weekday' and v_ends[2] = 0 and v_ends[1] > 0 then
                v_ends[2] := 7;
            else
                null;
        end case;
        case
            when v_problem is not null then
                null;
            when v_ends[1] not between low and high or v_ends[2] not between low and high then
                v_problem := format('%s "%s" is not between %s and %s', name, v_item, low, high);
            when v_ends[1] > v_ends[2] then
                v_problem := format('"%s" begins after its end', v_item);
            else
                v_values := v_values || array(
                    select * from generate_series(v_ends[1], v_ends[2], v_step));
        end case;
        exit when v_problem is not null;
    end loop;
    if v_problem is null and v_values = '{}' then
        v_problem := format('the %s is missing', name);
    end if;
    if v_problem is not null then
        raise exception 'invalid cron expression "%": %', cron, v_problem
            using errcode = 'invalid_parameter_value',
                  hint = 'Use five fields (minute hour day month weekday), such as '
                      '''30 2 * * mon-fri'' or ''*/5 * * * *''.';
    end if;
    if name = 'weekday' then
        v_values := array(select v % 7 from unnest(v_values) v);
    end if;
    return array(select distinct v from unnest(v_values) v order by v);
end
$$;
comment on function pgq._cron_field(text, text, text, int, int, text[]) is
    'The values of one field of a cron expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/cron_local.sql

-- The first local time after the given one that a cron expression chooses.
create or replace function pgq._cron_local(cron pgq._cron, after timestamp) returns timestamp
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_day date := after::date;
    v_hour int := extract(hour from after)::int;
    v_minute int := extract(minute from after)::int;
    v_next int;
    v_chosen boolean[];  -- the day, the weekday
begin
    -- 29 February may be eight years away.
    while v_day < after + interval '9 years' loop
        if extract(month from v_day)::int <> all (cron.months) then
            v_day := (date_trunc('month', v_day::timestamp) + interval '1 month')::date;
            v_hour := -1;
            continue;
        end if;
        v_chosen := array[extract(day from v_day)::int = any (cron.days),
                          extract(dow from v_day)::int = any (cron.weekdays)];
        if true = all (v_chosen) or cron.either and true = any (v_chosen) then
            if v_hour = any (cron.hours) then
                v_next := (select min(m) from unnest(cron.minutes) m where m > v_minute);
                if v_next is not null then
                    return v_day + make_interval(hours => v_hour, mins => v_next);
                end if;
            end if;
            v_next := (select min(h) from unnest(cron.hours) h where h > v_hour);
            if v_next is not null then
                return v_day + make_interval(hours => v_next, mins => cron.minutes[1]);
            end if;
        end if;
        v_day := v_day + 1;
        v_hour := -1;
    end loop;
    return null;
end
$$;
comment on function pgq._cron_local(pgq._cron, timestamp) is
    'The next local time of a cron expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/cron_parse.sql

-- Parses a cron expression; 22023 if it makes no sense or names a day that does not exist.
create or replace function pgq._cron_parse(cron text) returns pgq._cron
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_text text := case lower(btrim(cron))
        when '@hourly' then '0 * * * *'
        when '@daily' then '0 0 * * *'
        when '@midnight' then '0 0 * * *'
        when '@weekly' then '0 0 * * 0'
        when '@monthly' then '0 0 1 * *'
        when '@yearly' then '0 0 1 1 *'
        when '@annually' then '0 0 1 1 *'
        else btrim(cron)
    end;
    v_fields text[] := regexp_split_to_array(v_text, E'\\s+');
    v_cron pgq._cron;
begin
    if v_text ~ '^@' then
        raise exception 'invalid cron expression "%": no such name', cron
            using errcode = 'invalid_parameter_value',
                  hint = 'Use @hourly, @daily, @weekly, @monthly or @yearly, or five fields.';
    end if;
    if cardinality(v_fields) <> 5 or v_text = '' then
        raise exception 'invalid cron expression "%": it has % fields, not five', cron,
            case when v_text = '' then 0 else cardinality(v_fields) end
            using errcode = 'invalid_parameter_value',
                  hint = 'They are minute, hour, day, month and weekday. For seconds use every.';
    end if;
    v_cron.minutes := pgq._cron_field(cron, v_fields[1], 'minute', 0, 59);
    v_cron.hours := pgq._cron_field(cron, v_fields[2], 'hour', 0, 23);
    v_cron.days := pgq._cron_field(cron, v_fields[3], 'day', 1, 31);
    v_cron.months := pgq._cron_field(cron, v_fields[4], 'month', 1, 12,
        '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
    v_cron.weekdays := pgq._cron_field(cron, v_fields[5], 'weekday', 0, 7,
        '{sun,mon,tue,wed,thu,fri,sat}');
    v_cron.either := left(v_fields[3], 1) <> '*' and left(v_fields[5], 1) <> '*';
    -- Each month has 28 days; a later day has to exist in one of the chosen months.
    if not v_cron.either and v_cron.days[1] > 28 and not exists (
        select from unnest(v_cron.months) m
        where v_cron.days[1] <= case when m = 2 then 29 when m in (4, 6, 9, 11) then 30 else 31 end)
    then
        raise exception 'invalid cron expression "%": no chosen month has such a day', cron
            using errcode = 'invalid_parameter_value',
                  hint = 'February has at most 29 days; April, June, September and November 30.';
    end if;
    return v_cron;
end
$$;
comment on function pgq._cron_parse(text) is 'Parses a cron expression.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/every_after.sql

-- The first moment after the given one that is a whole number of intervals after the start. Days
-- and months are those of the time zone's calendar, so that a day has 23 to 25 hours.
create or replace function pgq._every_after(
    every interval, time_zone text, start timestamptz, after timestamptz
) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_months int;
    v_days int;
    v_time interval;
    v_most float8;
    v_count bigint;
    v_at timestamptz;
begin
    if pgq._is_step(every) is not true then  -- stored past the check: the loop would not end
        raise exception 'every is out of range: %', every
            using errcode = 'invalid_parameter_value', hint = 'Schedule it again.';
    end if;
    v_months := (extract(year from every) * 12 + extract(month from every))::int;
    v_days := extract(day from every)::int;
    v_time := every - make_interval(months => v_months, days => v_days);
    -- No step is longer: months of 31 days, days of 25 hours.
    v_most := (v_months * 31 + v_days) * 90000 + extract(epoch from v_time)::float8;
    v_count := greatest(1, floor(extract(epoch from after - start)::float8 / v_most))::bigint;
    loop
        v_at := case when v_months = 0 and v_days = 0 then start
                else (start at time zone time_zone
                      + make_interval(months => (v_months * v_count)::int,
                                      days => (v_days * v_count)::int)) at time zone time_zone
                end + v_time * v_count;
        exit when v_at > after;
        v_count := v_count + 1;
    end loop;
    return v_at;
end
$$;
comment on function pgq._every_after(interval, text, timestamptz, timestamptz) is
    'The next time that is a whole number of intervals after the start.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/last_run.sql

-- The last run of a schedule that is not after now, if its next run is due.
create or replace function pgq._last_run(schedule pgq.schedule, now timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_back interval := '1 min';
    v_at timestamptz;
    v_next timestamptz;
begin
    -- Twice as far back each time: few runs are between the first one found and now.
    loop
        v_at := greatest(schedule.next_at, pgq._next_run(schedule, now - v_back));
        exit when v_at <= now;
        if now - v_back < schedule.next_at then
            return schedule.next_at;
        end if;
        v_back := v_back * 2;
    end loop;
    loop
        v_next := pgq._next_run(schedule, v_at);
        exit when v_next > now;
        v_at := v_next;
    end loop;
    return v_at;
end
$$;
comment on function pgq._last_run(pgq.schedule, timestamptz) is
    'The last run of a schedule that is not after now.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/next_run.sql

-- The first run of a schedule after a moment.
create or replace function pgq._next_run(schedule pgq.schedule, after timestamptz)
returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if schedule.cron is not null then
        return pgq._cron_after(pgq._cron_parse(schedule.cron), schedule.time_zone, after);
    end if;
    return pgq._every_after(schedule.every, schedule.time_zone, schedule.started_at, after);
end
$$;
comment on function pgq._next_run(pgq.schedule, timestamptz) is
    'The first run of a schedule after a moment.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/next_schedule.sql

-- When the next schedule publishes to a queue: its consumers sleep until then at most. Reads a
-- bounded number of schedules; if none of these is for the queue, the time of the last one.
create or replace function pgq._next_schedule(queue_id int) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select min(n.next_at) filter (where n.i = pgq._limit('schedules_ahead') or exists (
            select from pgq.binding b
            where b.queue_id = _next_schedule.queue_id
              and (b.regex is null and b.pattern = n.topic or n.topic ~ b.regex)))
        from (select s.next_at, s.topic, row_number() over (order by s.next_at) as i
              from pgq.schedule s where s.next_at is not null
              order by s.next_at limit pgq._limit('schedules_ahead')) n);
end
$$;
comment on function pgq._next_schedule(int) is
    'When the next schedule publishes to a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/pause_schedule.sql

-- Stops a schedule until resume_schedule; false if it was paused already.
create or replace function pgq.pause_schedule(name text, caller pgq.caller default current_user)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule := pgq._schedule_for(caller, pause_schedule.name);
begin
    if v_schedule.name is null then
        perform pgq._refuse_schedule(name);
    end if;
    update pgq.schedule s set next_at = null
    where s.name = v_schedule.name and s.next_at is not null;
    return found;
end
$$;
comment on function pgq.pause_schedule(text, pgq.caller) is
    'Stops a schedule until resume_schedule. Returns false if it was paused already.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/refuse_schedule.sql

-- Raises 42704 for a schedule that does not exist.
create or replace function pgq._refuse_schedule(name text) returns void
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'schedule "%" does not exist', coalesce(name, '<null>')
        using errcode = 'undefined_object', hint = 'select * from pgq.schedules lists them.';
end
$$;
comment on function pgq._refuse_schedule(text) is 'Raises an error for a schedule that is missing.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/resume_schedule.sql

-- Resumes a schedule; false if it was not paused. Runs during the pause do not count as missed.
create or replace function pgq.resume_schedule(name text, caller pgq.caller default current_user)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule := pgq._schedule_for(caller, resume_schedule.name);
begin
    if v_schedule.name is null then
        perform pgq._refuse_schedule(name);
    elsif v_schedule.next_at is not null then
        return false;
    end if;
    update pgq.schedule s set next_at = pgq._next_run(v_schedule, pgq.now()), error = null
    where s.name = v_schedule.name;
    perform pgq._wake_for(v_schedule.topic);
    return true;
end
$$;
comment on function pgq.resume_schedule(text, pgq.caller) is
    'Resumes a paused schedule with its next run. Returns false if it was not paused.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/run_schedule.sql

-- Publishes the due runs of a schedule and stores its next run. The caller has locked its row.
--
-- Several runs are due if there was no claim and no maintain() for a while. "all" publishes each,
-- "one" publishes the last of them, and so does "skip", unless the last one is late itself.
create or replace function pgq._run_schedule(schedule pgq.schedule, now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_at timestamptz;
    v_id bigint;
    v_role name := case when schedule.role is null then current_user
        else (select r.rolname from pg_roles r where r.oid = schedule.role) end;
begin
    if v_role is null then
        raise exception 'the role of schedule "%" does not exist', schedule.name
            using errcode = 'undefined_object', hint = 'Let another role schedule it again.';
    end if;
    for i in 1 .. pgq._limit('schedule_runs') loop
        v_at := schedule.next_at;
        schedule.next_at := pgq._next_run(schedule, v_at);
        if schedule.missed <> 'all' and schedule.next_at <= now then
            v_at := pgq._last_run(schedule, now);
            schedule.next_at := pgq._next_run(schedule, now);
        end if;
        if schedule.missed <> 'skip'
           or v_at >= now - pgq._limit('schedule_late_seconds') * interval '1 s'
        then
            v_id := (pgq._publish(
                v_role, schedule.topic, array[schedule.payload],
                array[schedule.headers || jsonb_build_object(
                    'schedule', schedule.name, 'scheduled_at',
                    to_char(v_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))],
                schedule.priority, null, schedule.expires_in, null, null, null, null, null,
                null, null))[1];
        end if;
        exit when schedule.next_at > now;
    end loop;
    update pgq.schedule s
    set next_at = schedule.next_at, error = null, last_id = coalesce(v_id, s.last_id),
        last_at = case when v_id is null then s.last_at else _run_schedule.now end
    where s.name = schedule.name;
end
$$;
comment on function pgq._run_schedule(pgq.schedule, timestamptz) is
    'Publishes the runs of a schedule that are due.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/run_schedules.sql

-- Runs the schedules that are due, a bounded number; returns how many. Called by every claim that
-- does upkeep, and by maintain().
--
-- Each run is published once: a session that runs a schedule locks its row until the messages and
-- the time of the next run are committed; others skip the row. Not under an old snapshot: that
-- would fail with 40001 when another session has run the schedule.
create or replace function pgq._run_schedules(now timestamptz) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule;
    v_count int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return 0;
    end if;
    for v_schedule in
        select s.* from pgq.schedule s
        where s.next_at <= _run_schedules.now
        order by s.next_at limit pgq._limit('schedules') for update skip locked
    loop
        -- A schedule that fails must not stop a claim.
        begin
            perform pgq._run_schedule(v_schedule, _run_schedules.now);
        exception
            when query_canceled or admin_shutdown or crash_shutdown then
                raise;
            when others then
                raise warning 'schedule "%" failed: %', v_schedule.name, sqlerrm
                    using errcode = sqlstate,
                          hint = 'Its next run is tried as usual; see pgq.schedules.';
                perform pgq._skip_run(v_schedule, sqlerrm, _run_schedules.now);
        end;
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
comment on function pgq._run_schedules(timestamptz) is 'Runs the schedules that are due.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/schedule.sql

-- Makes or changes a schedule and returns its next run.
create or replace function pgq.schedule(
    name text,
    topic text,
    payload jsonb,
    cron text default null,
    every interval default null,
    time_zone text default 'UTC',
    missed text default 'one',
    headers jsonb default '{}',
    priority int default 0,
    expires_in interval default null,
    caller pgq.caller default current_user
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := pgq.now();
    v_wanted pgq.schedule;
    v_present pgq.schedule;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_topic(caller, topic);
        v_wanted.role := (select r.oid::regrole from pg_roles r where r.rolname = schedule.caller);
    end if;
    v_wanted.name := schedule.name;
    v_wanted.topic := topic;
    v_wanted.payload := payload;
    v_wanted.headers := coalesce(headers, '{}');
    v_wanted.priority := priority;
    v_wanted.expires_in := expires_in;
    v_wanted.cron := cron;
    v_wanted.every := every;
    v_wanted.time_zone := time_zone;
    v_wanted.missed := missed;
    v_wanted.started_at := date_trunc('second', v_now);
    perform pgq._check_schedule(v_wanted);
    perform pgq._route_of(topic, v_wanted.role is null);  -- QU005 now, not at the first run
    v_wanted.next_at := pgq._next_run(v_wanted, v_now);

    insert into pgq.schedule select v_wanted.* on conflict on constraint schedule_pkey do nothing;
    if not found then
        v_present := pgq._schedule_for(caller, schedule.name);
        -- A program may call this at every start: with the same times it continues or stays paused.
        if v_present.cron is not distinct from cron and v_present.every is not distinct from every
           and v_present.time_zone = time_zone
        then
            v_wanted.started_at := v_present.started_at;
            v_wanted.next_at := v_present.next_at;
        end if;
        update pgq.schedule s
        set topic = v_wanted.topic, payload = v_wanted.payload, headers = v_wanted.headers,
            priority = v_wanted.priority, expires_in = v_wanted.expires_in, cron = v_wanted.cron,
            every = v_wanted.every, time_zone = v_wanted.time_zone, missed = v_wanted.missed,
            role = v_wanted.role, started_at = v_wanted.started_at, next_at = v_wanted.next_at
        where s.name = schedule.name;
    end if;
    perform pgq._wake_for(topic);
    return v_wanted.next_at;
end
$$;
comment on function pgq.schedule(
    text, text, jsonb, text, interval, text, text, jsonb, int, interval, pgq.caller) is
    'Publishes the message at regular times: either cron (minute hour day month weekday, or '
    '@daily and similar) in the time zone, or every interval from now on. Claims and maintain() '
    'publish each due run once. missed defines what happens to runs that were not published in '
    'time: skip them, publish one for all of them, or publish all. The headers schedule and '
    'scheduled_at name the run. A call with an existing name changes the schedule; with the same '
    'times it continues. Messages are published with the rights of the calling role. Returns the '
    'next run; null: the schedule is paused.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/schedule_for.sql

-- The schedule of that name, locked, for the role that made it, its members and the owner; null if
-- there is none, 42501 for others.
create or replace function pgq._schedule_for(caller name, name text) returns pgq.schedule
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule;
begin
    select s.* into v_schedule from pgq.schedule s where s.name = _schedule_for.name for update;
    if found and not pgq._is_owner(caller)
       and not coalesce(pg_has_role(caller, v_schedule.role, 'usage'), false)
    then
        raise exception 'permission denied for schedule "%"', _schedule_for.name
            using errcode = 'insufficient_privilege',
                  hint = 'Another role has made a schedule of this name: choose a new one.';
    end if;
    return v_schedule;
end
$$;
comment on function pgq._schedule_for(name, text) is
    'The schedule of that name, for a caller who may change it.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/skip_run.sql

-- Stores that a run has failed, and when the next one is due: null (paused) if that is unknown.
create or replace function pgq._skip_run(schedule pgq.schedule, error text, now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next timestamptz;
begin
    begin
        v_next := pgq._next_run(schedule, now);
    exception
        when others then
            null;  -- such as a time zone that the server does not know any more
    end;
    update pgq.schedule s set next_at = v_next, error = _skip_run.error
    where s.name = schedule.name;
end
$$;
comment on function pgq._skip_run(pgq.schedule, text, timestamptz) is
    'Stores that a run has failed.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/unschedule.sql

-- Ends a schedule; false if there is none.
create or replace function pgq.unschedule(name text, caller pgq.caller default current_user)
returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule pgq.schedule := pgq._schedule_for(caller, unschedule.name);
begin
    delete from pgq.schedule s where s.name = v_schedule.name;
    return found;
end
$$;
comment on function pgq.unschedule(text, pgq.caller) is
    'Ends a schedule. Messages that it has published stay. Returns false if there is no schedule '
    'of that name.';
$pgq_script$;
    execute $pgq_script$
-- sql/42_schedule/wake_for.sql

-- Wakes the consumers of the queues that receive a topic: they sleep until the next run of a
-- schedule at most, and have to read the time of a new one.
create or replace function pgq._wake_for(topic text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._wake(b.queue_id) from pgq.binding b
    where b.regex is null and b.pattern = topic or topic ~ b.regex;
end
$$;
comment on function pgq._wake_for(text) is
    'Wakes the consumers of the queues that receive a topic.';
$pgq_script$;
    execute $pgq_script$
-- sql/45_end/bury_set.sql

-- Copies messages into the dead letters. The caller removes them from their rows in the same
-- transaction: if this fails, they stay there.
create or replace function pgq._bury_set(
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
    insert into pgq.letter (
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
    perform pgq._wake_results(_bury_set.ids);
    if v_count < pgq._set_size(_bury_set.ids) then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq._bury_set(
    int, int8multirange, int, text, text, jsonb, jsonb, text, inet, timestamptz) is
    'Copies messages into the dead letters.';
$pgq_script$;
    execute $pgq_script$
-- sql/45_end/end_lease.sql

-- Takes messages out of a lease: all that it holds, or the given ids, or nothing and QU003.
create or replace function pgq._end_lease(lease_id bigint, ids bigint[]) returns setof pgq.lease
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
        for v_part in
            delete from pgq.lease l where l.lease_id = _end_lease.lease_id returning l.*
        loop
            v_found := true;
            return next v_part;
        end loop;
        if not v_found then
            perform pgq._lose_lease(lease_id);
        end if;
        if v_part.flow is not null then
            perform pgq._wake(v_part.queue_id);  -- the limit has room again
        end if;
        return;
    elsif v_wanted = '{}' then
        return;
    end if;
    -- Waits for a transaction that is ending the same lease, and then sees what it has left.
    for v_part in
        select l.* from pgq.lease l
        where l.lease_id = _end_lease.lease_id and l.ids && v_wanted
        order by l.part for update
    loop
        v_found := true;
        if v_part.ids <@ v_wanted then
            delete from pgq.lease l where l.lease_id = v_part.lease_id and l.part = v_part.part;
        else
            v_part.ids := v_part.ids * v_wanted;
            v_part.size := pgq._set_size(v_part.ids);
            -- Counts the ids that leave: the rest may be 50,000 ranges.
            update pgq.lease l set ids = l.ids - v_part.ids, size = l.size - v_part.size
            where l.lease_id = v_part.lease_id and l.part = v_part.part;
        end if;
        v_missing := v_missing - v_part.ids;
        if v_part.flow is not null then
            perform pgq._wake(v_part.queue_id);
        end if;
        return next v_part;
    end loop;
    if not v_found and not exists (
        select from pgq.lease l where l.lease_id = _end_lease.lease_id)
    then
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
$pgq_script$;
    execute $pgq_script$
-- sql/45_end/expire.sql

-- Ends expired messages: dead letters, or discarded, by the policy of the queue.
create or replace function pgq._expire(
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
    'Ends expired messages.';
$pgq_script$;
    execute $pgq_script$
-- sql/45_end/expire_rows.sql

-- Ends expired messages of a queue, a bounded number; returns how many.
create or replace function pgq._expire_rows(
    queue pgq.queue, "rows" int, messages int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_size int;
    v_count int := 0;
    v_since timestamptz := '-infinity';
begin
    -- In portions: the next message of an ordering group may have expired too. Each portion begins
    -- where the last one ended, because a scan still reads rows that this transaction has deleted.
    loop
        v_size := 0;
        for v_set in
            with gone as (
                delete from pgq.ready d
                where d.ctid = any (array(
                    select e.place from (
                        select x.place, sum(x.size) over (rows unbounded preceding) - x.size
                                   as ahead
                        from (
                            select r.ctid as place, r.size, r.expires_at from pgq.ready r
                            where r.queue_id = queue.queue_id and r.expires_at <= now
                              and r.expires_at >= v_since
                            order by r.expires_at limit "rows" for update skip locked
                        ) x
                    ) e
                    where e.ahead <= messages - v_count))
                returning d.*
            )
            select g.attempt, g.failures, g.grouped, range_agg(g.ids) as ids,
                   sum(g.size)::int as size, max(g.expires_at) as expires_at
            from gone g group by 1, 2, 3 order by g.grouped
        loop
            perform pgq._expire(
                queue, v_set.ids, v_set.attempt, v_set.failures, v_set.grouped, now);
            v_size := v_size + v_set.size;
            v_since := case when v_set.grouped then '-infinity'
                       else greatest(v_since, v_set.expires_at) end;
        end loop;
        v_count := v_count + v_size;
        exit when v_size = 0 or v_count >= messages;
    end loop;
    return v_count;
end
$$;
comment on function pgq._expire_rows(pgq.queue, int, int, timestamptz) is
    'Ends expired messages of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/45_end/failure.sql

-- The failures of a message with one more at the end.
create or replace function pgq._failure(
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
$pgq_script$;
    execute $pgq_script$
-- sql/45_end/retry.sql

-- Retries messages whose delivery failed, or makes them dead letters.
-- A delay of null is the queue's backoff; a delay of zero makes them ready at once. Messages that
-- timed out together do not become dead letters: it is not known which of them is the cause.
create or replace function pgq._retry(
    queue pgq.queue, ended pgq.lease, outcome text, delay interval, error text, details jsonb,
    now timestamptz, alone boolean default true
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_failures jsonb := pgq._failure(
        ended.failures, outcome, ended.attempt, ended.claimed_at, ended.holder, ended.client,
        error, now);
    v_delay interval := delay;
    v_size int := ended.size;
    v_reason text := case
        when outcome = 'bury' then 'rejected'
        when ended.attempt < queue.max_attempts or not alone then null
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
    if v_delay is null then
        -- Doubles with every attempt; half of it is random, so that messages that failed together
        -- are not redelivered together.
        v_delay := make_interval(secs => least(
            extract(epoch from pgq._bounded(queue.max_backoff, pgq._limit('policy_years')))::float8,
            extract(epoch from pgq._bounded(queue.backoff, pgq._limit('policy_years')))::float8
                * 2 ^ least(ended.attempt - 1, 62))
            * (0.5 + random() / 2));
    end if;
    -- Dead letters that release their group do not return to its backlog. A tenth of the suspects
    -- returns alone.
    if ended.runs and (v_reason is null or queue.on_dead = 'block') then
        ended := pgq._return_runs(
            ended, v_failures, case when v_reason is null then v_delay end, now,
            case when outcome = 'timeout' then
                ceil(ended.size::float8 / pgq._limit('suspect_split'))::int else ended.size end);
    end if;
    -- Messages in a group backlog are not dead letters.
    insert into pgq.outcome (queue_id, event, reason, size)
    select ended.queue_id, outcome, o.reason, o.size
    from (values (v_reason, ended.size), (null, v_size - ended.size)) o (reason, size)
    where o.size > 0;
    if ended.size = 0 then
        return;
    end if;
    if v_reason is not null then
        perform pgq._bury_set(
            ended.queue_id, ended.ids, ended.attempt, v_reason, error, details, v_failures,
            ended.holder, ended.client, now);
        if ended.grouped and queue.on_dead = 'release' then
            perform pgq._advance_lease(queue, ended, now);
        end if;
        return;
    end if;
    if v_delay > interval '0' then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
        values (ended.queue_id, now + v_delay, ended.attempt, ended.size, ended.grouped,
                v_failures, ended.ids);
        perform pgq._wake(ended.queue_id);
    else
        -- Suspects are redelivered in smaller rows, each of them alone.
        if outcome = 'timeout' then
            queue.set_size := least(
                queue.set_size, ceil(ended.size::float8 / pgq._limit('suspect_split'))::int);
        end if;
        perform pgq._enqueue(queue, ended.ids, ended.attempt, v_failures, ended.grouped,
                             suspect => outcome = 'timeout');
    end if;
end
$$;
comment on function pgq._retry(
    pgq.queue, pgq.lease, text, interval, text, jsonb, timestamptz, boolean) is
    'Retries messages whose delivery failed, or makes them dead letters.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/expire_some.sql

-- Ends a few expired messages of a queue. Returns how many if this may have made others ready: only
-- the end of a group's head does that. The first claim of a session leaves most of them to later
-- claims and to maintain(): planning the statements takes longer than skipping the rows.
create or replace function pgq._expire_some(queue pgq.queue, first boolean, now timestamptz)
returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_grouped boolean := exists (
        select from pgq.group_head h where h.queue_id = queue.queue_id);
    v_most constant int := pgq._limit('upkeep_messages') / 40;
    v_moved int;
begin
    if first and not v_grouped
       and v_most < (
           select count(*) from (
               select from pgq.ready r where r.queue_id = queue.queue_id and r.expires_at <= now
               limit v_most + 1) x)
    then
        return 0;
    end if;
    v_moved := pgq._expire_rows(queue, pgq._limit('upkeep_rows'), v_most, now);
    return case when v_grouped then v_moved else 0 end;
end
$$;
comment on function pgq._expire_some(pgq.queue, boolean, timestamptz) is
    'Ends a few expired messages of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/low.sql

-- The low watermark of a queue, kept by each session in the setting pgq.low_<queue_id>. Nothing
-- else reads or writes that setting. Every role can write settings, so the value is signed with a
-- secret of the queue: a forged one, or one of another session, is ignored.
create or replace function pgq._low_tick(now timestamptz) returns bigint
language sql stable
return floor(date_part('epoch', now) * pgq._limit('ticks'))::bigint;
comment on function pgq._low_tick(timestamptz) is
    'The tick of a time. Upkeep runs and watermarks are renewed once per tick.';

create or replace function pgq._low_get(value text, secret text) returns pgq._low
language sql stable
return case when split_part(value, '#', 1)
                 = md5(split_part(value, '#', 2) || pg_backend_pid() || secret)
       then split_part(value, '#', 2)::pgq._low end;
comment on function pgq._low_get(text, text) is 'The low watermark in the value of the setting.';

create or replace function pgq._low_set(queue_id int, secret text, low text) returns text
language sql volatile
return set_config('pgq.low_' || queue_id,
                  md5(low || pg_backend_pid() || secret) || '#' || low, false);
comment on function pgq._low_set(int, text, text) is 'Stores the low watermark of a queue.';

-- Rows before the watermark that its snapshot could not see: redeliveries, higher priorities, late
-- commits. One probe of the index for each transaction that was running then; a join or = any
-- would walk over the whole index. Each probe reads at most "most" rows. Without rows that the
-- filter is known not to match.
create or replace function pgq._late_rows(
    queue_id int, low pgq._low, most int, filter_id bigint default null
)
returns pgq._late
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_late pgq._late;
begin
    select array_agg(n.place order by n.rank) filter (where n.rank < low.rank),
           min(n.rank) filter (where n.rank < low.rank),
           sum(n.size) filter (where n.rank < low.rank),
           bool_or(n.suspect) filter (where n.rank < low.rank), count(*)
    into v_late
    from (
        (select r.ctid as place, r.rank, r.size, r.suspect from pgq.ready r
         where r.queue_id = _late_rows.queue_id and r.xid >= pg_snapshot_xmax(low.seen)
           and r.unmatched_by is distinct from coalesce(_late_rows.filter_id, 0)
         order by r.xid limit most)
        union all
        select p.place, p.rank, p.size, p.suspect
        from (select pg_snapshot_xip(low.seen) as xid union all select low.own) i
        cross join lateral (
            select r.ctid as place, r.rank, r.size, r.suspect from pgq.ready r
            where r.queue_id = _late_rows.queue_id and r.xid = i.xid
              and i.xid < pg_snapshot_xmax(low.seen)
              and r.unmatched_by is distinct from coalesce(_late_rows.filter_id, 0)
            order by r.xid limit most) p
    ) n;
    return v_late;
end
$$;
comment on function pgq._late_rows(int, pgq._low, int, bigint) is
    'Ready rows before the low watermark that its snapshot could not see.';

-- Whether a fast path may look up late rows by one range of transactions, from the oldest that was
-- running: the range is short, and holds few rows of the queue.
create or replace function pgq._low_is_exact(queue_id int, seen pg_snapshot) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_first xid8 := pg_snapshot_xmin(seen);
    v_next xid8 := pg_snapshot_xmax(seen);
begin
    return v_first = v_next
        or v_next::text::bigint - v_first::text::bigint < pgq._limit('late_rows')
           and 20 > (
               select count(*) from (
                   select from pgq.ready r
                   where r.queue_id = _low_is_exact.queue_id and r.xid >= v_first and r.xid < v_next
                   order by r.xid limit 20) x);
end
$$;
comment on function pgq._low_is_exact(int, pg_snapshot) is
    'Whether few rows were inserted by transactions since the oldest running one.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/move_on.sql

-- Advances groups whose head ended while a publisher held them; returns how many.
create or replace function pgq._move_on(queue pgq.queue, now timestamptz) returns int
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
            perform pgq._admit_heads(
                queue, array[v_next.next_id], v_next.failures, now, v_next.due_at);
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq._move_on(pgq.queue, timestamptz) is
    'Advances groups whose head ended while a publisher held them.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/promote.sql

-- Makes due messages ready, a bounded number; returns how many.
create or replace function pgq._promote(
    queue pgq.queue, due timestamptz, "rows" int, messages int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set record;
    v_part int8multirange;
    v_count int := 0;
begin
    -- Rows with the same attempt and failures are joined: delayed messages have no failures.
    for v_set in
        with gone as (
            delete from pgq.scheduled d
            where d.ctid = any (array(
                select s.ctid from pgq.scheduled s
                where s.queue_id = queue.queue_id and s.due_at <= now
                  and s.due_at >= coalesce(due, '-infinity')
                order by s.due_at limit "rows" for update skip locked))
            returning d.*
        )
        select g.attempt, g.failures, g.grouped, min(g.due_at) as due_at, range_agg(g.ids) as ids,
               sum(g.size)::int as size
        from gone g group by 1, 2, 3 order by 4
    loop
        v_part := pgq._first_ids(v_set.ids, greatest(messages - v_count, 0));
        if v_part <> '{}' then
            perform pgq._enqueue(queue, v_part, v_set.attempt, v_set.failures, v_set.grouped);
        end if;
        if v_part <> v_set.ids then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (queue.queue_id, v_set.due_at, v_set.attempt,
                    v_set.size - pgq._set_size(v_part), v_set.grouped, v_set.failures,
                    v_set.ids - v_part);
        end if;
        v_count := v_count + pgq._set_size(v_part);
    end loop;
    return v_count;
end
$$;
comment on function pgq._promote(pgq.queue, timestamptz, int, int, timestamptz) is
    'Makes due messages ready.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/take_back.sql

-- Takes back the messages of expired leases, a bounded number; returns how many.
create or replace function pgq._take_back(
    queue pgq.queue, lease bigint, "rows" int, messages int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease pgq.lease;
    v_part int8multirange;
    v_last bigint;     -- the delivery whose rows are being taken back
    v_rows bigint;     -- how many rows it has
    v_whole boolean;   -- all of them are locked
    v_alone boolean;
    v_several bigint[] := '{}';
    v_count int := 0;
begin
    for v_lease in
        select l.* from pgq.lease l
        where l.lease_id >= coalesce(_take_back.lease, 0)
          and l.lease_id < pgq._lease_second_end(now)
          and l.queue_id = queue.queue_id and l.until <= now
        order by l.lease_id, l.part limit "rows" for update skip locked
    loop
        exit when v_count >= messages;
        if v_lease.lease_id is distinct from v_last then
            v_last := v_lease.lease_id;
            -- All rows of a delivery or none: an ack that has locked one of them may roll back.
            select count(*) into v_rows from pgq.lease l where l.lease_id = v_last;
            v_whole := v_rows = 1 or v_rows = (
                select count(*) from (
                    select from pgq.lease l where l.lease_id = v_last for update skip locked) x);
            if v_whole and v_rows > 1 then
                v_several := v_several || v_last;
            end if;
        end if;
        continue when not v_whole;
        -- The messages left of a delivery that times out are suspect, unless it is a single
        -- message: then it is known which one is the cause.
        v_alone := v_rows = 1 and v_lease.size = 1 and v_lease.shared is not true;
        -- A failed dead-letter write must neither lose the message nor stop the claim.
        begin
            if v_lease.size > messages then
                v_part := pgq._first_ids(v_lease.ids, messages);
                update pgq.lease l set ids = l.ids - v_part, size = l.size - messages,
                                       shared = true
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
                v_lease.ids := v_part;
                v_lease.size := messages;
            else
                delete from pgq.lease l
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            end if;
            perform pgq._retry(queue, v_lease, 'timeout', interval '0', null, null, now, v_alone);
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
    -- Mark the rows that are left to a later call.
    if v_several <> '{}' then
        update pgq.lease l set shared = true where l.lease_id = any (v_several);
    end if;
    return v_count;
end
$$;
comment on function pgq._take_back(pgq.queue, bigint, int, int, timestamptz) is
    'Takes back the messages of expired leases.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/upkeep.sql

-- The maintenance that consumers do for their queue, in bulk by index and a bounded amount: take
-- back expired leases, make due messages ready, end expired messages, advance groups. Reads leases
-- from a token on and scheduled rows from a time on. Returns how many messages it moved.
create or replace function pgq._upkeep(
    queue pgq.queue, lease bigint, due timestamptz, now timestamptz,
    "rows" int default pgq._limit('upkeep_rows'),
    messages int default pgq._limit('upkeep_messages')
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_waiting record;
    v_count int := 0;
begin
    select exists (select from pgq.lease l
                   where l.lease_id >= coalesce(lease, 0)
                     and l.lease_id < pgq._lease_second_end(now)
                     and l.queue_id = queue.queue_id and l.until <= now) as ended,
           exists (select from pgq.scheduled s
                   where s.queue_id = queue.queue_id and s.due_at <= now
                     and s.due_at >= coalesce(due, '-infinity')) as due,
           exists (select from pgq.ready r
                   where r.queue_id = queue.queue_id and r.expires_at <= now) as expired,
           exists (select from pgq.group_stall g where g.queue_id = queue.queue_id) as stalled
    into v_waiting;
    if v_waiting.stalled then
        v_count := v_count + pgq._move_on(queue, now);
    end if;
    if v_waiting.ended then
        v_count := v_count + pgq._take_back(queue, lease, "rows", messages, now);
    end if;
    if v_waiting.due then
        v_count := v_count + pgq._promote(queue, due, "rows", messages, now);
    end if;
    if v_waiting.expired or v_waiting.due then
        v_count := v_count + pgq._expire_rows(queue, "rows", messages / 20, now);
    end if;
    return v_count;
end
$$;
comment on function pgq._upkeep(pgq.queue, bigint, timestamptz, timestamptz, int, int) is
    'Takes back expired leases, makes due messages ready and ends expired messages, a limited '
    'number per call.';
$pgq_script$;
    execute $pgq_script$
-- sql/46_upkeep/upkeep_tick.sql

-- Upkeep by a claim: at most once in a tick, and recorded in the low watermark, which is returned
-- and has to be stored. Leases that begin from now on have tokens from now on, and rows scheduled
-- from now on are due later: the next upkeep need not read anything before that.
create or replace function pgq._upkeep_tick(
    queue pgq.queue, low pgq._low, now timestamptz
) returns pgq._low
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick bigint := pgq._low_tick(now);
    v_first boolean := low.swept is null;
    v_next record;
    v_moved int;
begin
    if abs(low.upkeep) = v_tick then
        return low;
    end if;
    if (v_tick - low.swept between 0 and pgq._limit('full_seconds') * pgq._limit('ticks'))
        is not true
    then
        low.lease := null;
        low.due := null;
        low.swept := v_tick;
    end if;
    low.upkeep := v_tick;
    select (select l.lease_id from pgq.lease l
            where l.lease_id >= coalesce(low.lease, 0) and l.queue_id = queue.queue_id
              and l.lease_id < pgq._lease_second_end(now)
            order by l.lease_id limit 1) as lease,
           (select s.due_at from pgq.scheduled s
            where s.queue_id = queue.queue_id and s.due_at >= coalesce(low.due, '-infinity')
              and s.due_at <= now
            order by s.due_at limit 1) as due,
           exists (select from pgq.ready r
                   where r.queue_id = queue.queue_id and r.expires_at <= now) as expired,
           exists (select from pgq.group_stall g where g.queue_id = queue.queue_id) as stalled,
           exists (select from pgq.schedule s where s.next_at <= now) as scheduled
    into v_next;
    low.lease := least(pgq._lease_second(now), v_next.lease);
    low.due := least(now, v_next.due);
    if v_next.scheduled then
        perform pgq._run_schedules(now);
    end if;
    if v_next.lease is not null or v_next.due is not null or v_next.stalled then
        v_moved := pgq._upkeep(queue, low.lease, low.due, now);
    elsif v_next.expired then
        v_moved := pgq._expire_some(queue, v_first, now);
    end if;
    if v_moved > 0 then
        low.upkeep := -v_tick;
    end if;
    low.expired := v_next.expired and exists (
        select from pgq.ready r where r.queue_id = queue.queue_id and r.expires_at <= now);
    return low;
end
$$;
comment on function pgq._upkeep_tick(pgq.queue, pgq._low, timestamptz) is
    'Runs upkeep in a claim, at most once per tick.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/begin_era.sql

-- Stores where an era begins, in the row of its slot: the end of the era that had the slot before.
create or replace function pgq._begin_era(number bigint, now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A publisher takes the id of a message before it reads the number of the era. So messages
    -- whose ids are taken from now on are in this era or a later one.
    insert into pgq.era as e (slot, number, started_at, first_id)
    values (_begin_era.number % 3, _begin_era.number, _begin_era.now,
            coalesce(pg_sequence_last_value('pgq.message_id'), 0) + 1)
    on conflict on constraint era_pkey do update
    set number = excluded.number, started_at = excluded.started_at,
        first_id = excluded.first_id, closed_xid = null,
        copied_xid = null, emptied_at = null, messages = null, checksum = null,
        archived_at = null;
end
$$;
comment on function pgq._begin_era(bigint, timestamptz) is
    'Stores the beginning of the current era.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/copy_forward.sql

-- Copies unfinished messages of a slot forward into the current era; returns whether the slot had
-- none, so that it may be truncated. Ends at the deadline, but not before it has copied some: it
-- takes a while to find them. Only the partition key changes: ids, sets and leases stay.
create or replace function pgq._copy_forward(slot int, deadline timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_low bigint;
    v_high bigint;
    v_range int8range;
    v_copied int := 0;
begin
    select min(m.id), max(m.id) into v_low, v_high
    from pgq.message m where m.era = _copy_forward.slot;
    if v_low is null then
        return true;
    end if;
    -- One range after the other, each by the index: a join with all ranges at once would read the
    -- whole slot for each of them.
    for v_range in
        select unnest(pgq._unfinished(int8multirange(int8range(v_low, v_high + 1))))
    loop
        if v_copied >= pgq._limit('copy_ranges') and clock_timestamp() >= deadline then
            return false;  -- the other ranges are not copied yet
        end if;
        update pgq.message m
        set era = pg_sequence_last_value('pgq.era_number') % 3
        where m.era = _copy_forward.slot and m.id >= lower(v_range) and m.id < upper(v_range);
        if found then
            v_copied := v_copied + 1;
        end if;
    end loop;
    return v_copied = 0;
end
$$;
comment on function pgq._copy_forward(int, timestamptz) is
    'Copies unfinished messages of a slot forward into the current era.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/is_past.sql

-- Whether all transactions of this database with an id before that one have ended. Reads the list
-- of backends, because a snapshot also contains the transactions of other databases.
create or replace function pgq._is_past(xid xid8) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return not exists (
            select from pg_stat_activity a
            where a.datid = (select d.oid from pg_database d where d.datname = current_database())
              and a.pid <> pg_backend_pid() and age(a.backend_xid) > age(xid(_is_past.xid)))
        and not exists (
            select from pg_prepared_xacts p
            where p.database = current_database() and age(p.transaction) > age(xid(_is_past.xid)));
end
$$;
comment on function pgq._is_past(xid8) is
    'Whether all transactions of this database before that one have ended.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/is_seen.sql

-- Whether every snapshot of this database, also those to come, sees what that transaction did.
create or replace function pgq._is_seen(xid xid8) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return pg_visible_in_snapshot(_is_seen.xid, pg_current_snapshot())
        and _is_seen.xid is distinct from pg_current_xact_id_if_assigned()
        and not exists (
            select from pg_stat_activity a
            where a.datid = (select d.oid from pg_database d where d.datname = current_database())
              and a.pid <> pg_backend_pid() and age(a.backend_xmin) >= age(xid(_is_seen.xid)));
end
$$;
comment on function pgq._is_seen(xid8) is
    'Whether every snapshot of this database sees what that transaction did.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/log_retention.sql

-- How long the log keeps messages: the longest retention of any queue, since all share the log.
create or replace function pgq._log_retention() returns interval
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(max(pgq._bounded(q.retention, pgq._limit('retention_years'))),
                            interval '1 day')
            from pgq.queue q);
end
$$;
comment on function pgq._log_retention() is 'The shortest time for which the log keeps messages.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/rotate.sql

-- Rotates the log by one step; returns whether there may be another one. Only maintain() does it.
--
-- A closed era whose messages are past retention is emptied in two transactions. The first copies
-- its unfinished messages forward. The second truncates the slot, when every snapshot sees the
-- copies, and when the lock is granted within a moment.
create or replace function pgq._rotate(now timestamptz, deadline timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_number bigint := pg_sequence_last_value('pgq.era_number');
    v_retention interval := pgq._log_retention();
    v_era pgq.era;
begin
    if current_setting('transaction_isolation') <> 'read committed' or not pgq._try_lock('era') then
        return false;
    end if;
    if not exists (select from pgq.era e where e.number = v_number) then
        -- The first time, or the sequence moved in a transaction that was rolled back.
        perform pgq._begin_era(v_number, now);
    end if;
    update pgq.era e set closed_xid = pg_current_xact_id()
    where e.number < v_number and e.closed_xid is null;

    -- Messages of an era are old enough when the start of the next era is. An archiver gets extra
    -- time. No transaction may still publish into the era.
    select e.* into v_era from pgq.era e join pgq.era n on n.number = e.number + 1
    where e.number < v_number and e.emptied_at is null
      and n.started_at + v_retention <= _rotate.now
      and (e.archived_at is not null or not exists (
          select from pgq.archive a
          where n.started_at + v_retention + pgq._bounded(a.wait, pgq._limit('policy_years'))
              > _rotate.now))
      and pgq._is_past(e.closed_xid)
    order by e.number limit 1;
    if found then
        if v_era.copied_xid is null then
            if pgq._copy_forward(v_era.slot, deadline) then
                update pgq.era e set copied_xid = pg_current_xact_id()
                where e.number = v_era.number;
            end if;
            return true;
        elsif pgq._is_seen(v_era.copied_xid) then
            -- A replay or a new subscription may have brought finished messages back; the lock
            -- keeps others from doing so until this transaction ends.
            if not pgq._copy_forward(v_era.slot, deadline) then
                update pgq.era e set copied_xid = null where e.number = v_era.number;
                return true;
            elsif pgq._truncate_slot(v_era.slot, _rotate.now - v_retention - (
                select n.started_at from pgq.era n where n.number = v_era.number + 1))
            then
                update pgq.era e set emptied_at = _rotate.now where e.number = v_era.number;
                return true;
            end if;
        end if;
    end if;

    -- Last, because a rollback does not reset a sequence.
    if exists (select from pgq.era e
               where e.number = v_number
                 and e.started_at + greatest(v_retention, interval '1 s') <= _rotate.now)
       and not exists (select from pgq.era e
                       where e.slot = (v_number + 1) % 3 and e.emptied_at is null)
       and exists (select from pgq.message m where m.era = v_number % 3)
    then
        perform setval('pgq.era_number', v_number + 1);
        perform pgq._begin_era(v_number + 1, now);
        return true;
    end if;
    return false;
end
$$;
comment on function pgq._rotate(timestamptz, timestamptz) is 'Rotates the log by one step.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/truncate_slot.sql

-- Truncates a slot of the log; false if it is in use. Waits for the lock for 40 ms: on a busy
-- server another session always holds it for a moment, and all later ones wait as long. If that is
-- too short, because readers follow each other closely, it waits longer the longer the slot is
-- overdue, well below deadlock_timeout. It does not wait for a holder whose transaction is older
-- than a second, such as pg_dump.
create or replace function pgq._truncate_slot(slot int, overdue interval) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '40ms'
as $$
begin
    -- Reset at the end of the function, because its SET clause names lock_timeout.
    perform set_config('lock_timeout', least(
        extract(epoch from current_setting('deadlock_timeout')::interval) * 1000 / 3,
        40 * (1 + extract(epoch from overdue) / 60))::int::text, true);
    if exists (
        select from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where l.granted and a.xact_start < clock_timestamp() - interval '1 s'
          and a.pid <> pg_backend_pid()
          and l.relation in (to_regclass('pgq.message_' || slot),
                             to_regclass('pgq.journal_' || slot))
          and l.database = (select d.oid from pg_database d where d.datname = current_database()))
    then
        return false;
    end if;
    case slot
        when 0 then
            lock table only pgq.message_0, only pgq.journal_0 in access exclusive mode;
            truncate pgq.message_0, pgq.journal_0;
        when 1 then
            lock table only pgq.message_1, only pgq.journal_1 in access exclusive mode;
            truncate pgq.message_1, pgq.journal_1;
        when 2 then
            lock table only pgq.message_2, only pgq.journal_2 in access exclusive mode;
            truncate pgq.message_2, pgq.journal_2;
    end case;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._truncate_slot(int, interval) is 'Truncates a slot of the log.';
$pgq_script$;
    execute $pgq_script$
-- sql/48_era/unfinished.sql

-- Which messages of a span some queue still has to deliver.
create or replace function pgq._unfinished(span int8multirange) returns int8multirange
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
    'The messages of a range that some queue still has to deliver.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/ack.sql

-- Acknowledges messages of a lease; null: everything that the lease still holds.
create or replace function pgq.ack(
    lease_id bigint, ids bigint[] default null, caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz;
    v_queue_id int;
    v_attempt int;
    v_claimed_at timestamptz;
    v_holder text;
    v_client inet;
    v_ids int8multirange;
    v_journal boolean;
    v_flow bigint;
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
        returning l.queue_id, l.attempt, l.claimed_at, l.holder, l.client, l.ids, l.size, l.journal,
                  l.flow
        into v_queue_id, v_attempt, v_claimed_at, v_holder, v_client, v_ids, v_count, v_journal,
             v_flow;
        if v_count > 0 then
            if v_journal then
                insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at,
                                         holder, client, ids)
                values (pgq.now(), v_queue_id, 'ack', v_attempt, v_count, ack.lease_id,
                        v_claimed_at, v_holder, v_client, v_ids);
            end if;
            if v_flow is not null then
                perform pgq._wake(v_queue_id);  -- the limit has room again
            end if;
            return v_count;
        end if;
    end if;
    v_now := pgq.now();
    v_count := 0;
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
                perform pgq._advance_lease(v_queue, v_part, v_now);
            end if;
        end if;
    end loop;
    return v_count;
end
$$;
comment on function pgq.ack(bigint, bigint[], pgq.caller) is
    'Acknowledges messages of a lease: they are done. Without ids: all messages that the lease '
    'still holds. Returns how many. QU003 if the lease does not hold them; then nothing has '
    'changed.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/bury.sql

-- Makes messages dead letters now, whatever attempts they have left.
create or replace function pgq.bury(
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
    'Makes messages of a lease dead letters, even if they have attempts left. Returns how many. '
    'QU003 if the lease does not hold them.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/extend.sql

-- Extends a lease: it lasts from now for the given time, or for the lease duration of the queue.
create or replace function pgq.extend(
    lease_id bigint, lease interval default null, caller pgq.caller default current_user
) returns timestamptz
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_held record;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, extend.lease_id);
    end if;
    if extend.lease <= interval '0' then
        raise exception 'lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'To give messages back use pgq.nack.';
    end if;
    -- However often it is extended, a lease ends at most max_lease of the queue after its claim.
    select q.name, q.max_lease, min(l.until) as until,
           min(l.claimed_at) + pgq._lease_span(q.max_lease, '10 years') as "limit"
    into v_held
    from pgq.lease l join pgq.queue q on q.queue_id = l.queue_id
    where l.lease_id = extend.lease_id group by q.queue_id;
    if v_held.until < 'infinity' and v_held.until >= v_held.limit then
        raise exception 'lease % cannot last longer: queue "%" allows %', extend.lease_id,
            v_held.name, v_held.max_lease
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'End it with pgq.ack or pgq.nack, or raise max_lease with '
                      'pgq.alter_queue.';
    end if;
    update pgq.lease l
    -- Never shorten a lease: its id encodes the original end, and expired leases are found by id.
    set until = greatest(
        l.until, least(v_now + pgq._lease_span(coalesce(extend.lease, q.lease)), v_held.limit))
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
    'Extends a lease: it then lasts for the given time from now (null: the lease duration of the '
    'queue), but no longer than max_lease of the queue after the claim. 55000 if it has that '
    'limit already. Returns the new expiry, or null if the lease never expires. QU003 if the '
    'lease is stale.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/finish.sql

-- Acknowledges a message and stores the result of the work.
create or replace function pgq.finish(
    lease_id bigint, id bigint, result jsonb default null, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_part pgq.lease;
    v_queue pgq.queue;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, finish.lease_id);
    end if;
    if id is null then
        raise exception 'finish needs the id of a message'
            using errcode = 'invalid_parameter_value',
                  hint = 'To end all that a lease holds, without a result, use pgq.ack(lease_id).';
    end if;
    for v_part in select * from pgq._end_lease(finish.lease_id, array[finish.id]) loop
        -- Even if the queue does not record acks: this row holds the result.
        insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                                 client, result, ids)
        values (v_now, v_part.queue_id, 'ack', v_part.attempt, 1, v_part.lease_id,
                v_part.claimed_at, v_part.holder, v_part.client,
                coalesce(finish.result, 'null'), v_part.ids);
        if v_part.grouped then
            select q.* into v_queue from pgq.queue q where q.queue_id = v_part.queue_id;
            if found then
                perform pgq._advance_lease(v_queue, v_part, v_now);
            end if;
        end if;
        perform pgq._wake_results(v_part.ids);
    end loop;
end
$$;
comment on function pgq.finish(bigint, bigint, jsonb, pgq.caller) is
    'Acknowledges one message of a lease and stores a result. pgq.result reads it, as long as the '
    'log keeps messages. QU003 if the lease does not hold the message; then nothing has changed.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/in_flight.sql

-- How many messages of a limited queue are leased, or of one of its lanes. Counted from the leases:
-- so nothing has to be repaired after a crash, an expiry, or an ack of a part. Leases before the
-- token are known to have ended.
create or replace function pgq._in_flight(queue_id int, lane bigint, first bigint) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if lane is null then
        return (
            select coalesce(sum(l.size), 0)::int from pgq.lease l
            where l.queue_id = _in_flight.queue_id and l.flow is not null
              and l.lease_id >= coalesce(first, 0));
    end if;
    return (
        select coalesce(sum(l.size), 0)::int from pgq.lease l
        where l.queue_id = _in_flight.queue_id and l.flow = lane
          and l.lease_id >= coalesce(first, 0));
end
$$;
comment on function pgq._in_flight(int, bigint, bigint) is
    'How many messages of a limited queue are leased.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/lease_parts.sql

-- Ranges of ids that cut a lease into parts of one size, for parallel readers.
create or replace function pgq.lease_parts(
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
    -- and finds the messages that were copied forward out of a truncated era.
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
    'Divides a lease into at most n parts of about the same size, for parallel readers of '
    'pgq.leased_message. A part is a range of ids from low (inclusive) to high (exclusive), with '
    'the number of messages of the lease in it. attempt: that of all messages; null if they '
    'differ. grouped = false: no message has a group key. Call it at the beginning of a READ '
    'COMMITTED transaction: it keeps the messages readable until the transaction ends.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/leased.sql

-- The messages of a lease in delivery order. Volatile, so that it reads with a snapshot taken after
-- it has locked the log: an older one would miss messages copied forward out of a truncated era.
create or replace function pgq.leased(
    lease_id bigint, caller pgq.caller default current_user
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
    v_size bigint;
    v_count bigint;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, leased.lease_id);
    end if;
    select sum(l.size) into v_size from pgq.lease l where l.lease_id = leased.lease_id;
    if v_size is null then
        perform pgq._lose_lease(leased.lease_id);
    end if;
    return query
        select * from pgq._read_lease(leased.lease_id) m
        order by m.priority desc, m.attempt > 1 desc, m.id;
    get diagnostics v_count = row_count;
    if v_count < v_size then
        perform pgq._refuse_missing(lease_id);
    end if;
end
$$;
comment on function pgq.leased(bigint, pgq.caller) is
    'Reads the messages of a lease again, for recovery and after pgq.hold. Changes nothing. To '
    'read a lease in parallel, use pgq.lease_parts and pgq.leased_message.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/nack.sql

-- Reports a failure: messages are retried after a delay, or dead letters after the last attempt.
create or replace function pgq.nack(
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
    'Returns messages of a lease as failed. They are retried after the delay (null: the queue''s '
    'backoff), or become dead letters if this was the last attempt. Returns how many. QU003 if '
    'the lease does not hold them.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/named_lease.sql

-- The token of a named claim, for ack, nack, bury, extend, release and leased by name.
create or replace function pgq.named_lease(
    queue text, key text, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', named_lease.queue);
    v_lease_id bigint;
begin
    select l.lease_id into v_lease_id from pgq.lease l
    where l.queue_id = v_queue.queue_id and l.key = named_lease.key
    order by l.part limit 1;
    if not found then
        raise exception 'queue "%" has no claim named "%"', named_lease.queue,
            coalesce(named_lease.key, 'null')
            using errcode = 'QU003',
                  hint = 'It was ended, or it expired and its messages are with another consumer.';
    end if;
    return v_lease_id;
end
$$;
comment on function pgq.named_lease(text, text, pgq.caller) is
    'The lease of a named claim, to call ack, nack, bury, extend, release and leased by name: '
    'select pgq.ack(pgq.named_lease(''orders'', ''job-42'')). QU003 if there is none.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/read_lease.sql

-- The only reader of messages for claims, named claims, streams and parallel readers, in three
-- steps: of a range of ids, of a set of ids, of a lease. The planner inlines all of them.

-- A caller that knows the slot of all messages passes it: the executor then prepares one partition
-- instead of three.
create or replace function pgq._read_range(
    lease_id bigint, attempt int, until timestamptz, first bigint, behind bigint, slot int
) returns setof pgq.claimed
language sql stable
begin atomic
    select _read_range.lease_id, m.id, m.topic, m.priority, _read_range.attempt, m.headers,
           m.payload, m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
           m.published_at, m.expires_at, nullif(until, 'infinity')
    from pgq.message m
    where m.id >= first and m.id < behind
      and m.era >= coalesce(slot, 0) and m.era <= coalesce(slot, 2)
    order by m.id;
end;
comment on function pgq._read_range(bigint, int, timestamptz, bigint, bigint, int) is
    'The messages of a range of ids, as a lease delivers them.';

-- In order of the ids. A range without any message is an error.
create or replace function pgq._read_ids(
    lease_id bigint, attempt int, until timestamptz, ids int8multirange, slot int default null
) returns setof pgq.claimed
language sql stable
begin atomic
    select _read_ids.lease_id, coalesce(m.id, pgq._refuse_missing(_read_ids.lease_id)), m.topic,
           m.priority, m.attempt, m.headers, m.payload, m.sender, m.recipient, m.reply_to,
           m.correlation_id, m.group_key, m.published_at, m.expires_at, m.lease_until
    from unnest(_read_ids.ids) r
    left join lateral pgq._read_range(
        _read_ids.lease_id, _read_ids.attempt, until, lower(r), upper(r), slot) m on true;
end;
comment on function pgq._read_ids(bigint, int, timestamptz, int8multirange, int) is
    'The messages of a set of ids, as a lease delivers them.';

-- The messages of a lease. Those of a lease of one row come in delivery order, because such a row
-- holds one priority and nested loops keep the order of their outer side. Others have to be sorted.
create or replace function pgq._read_lease(token bigint) returns setof pgq.claimed
language sql stable
begin atomic
    select m.* from pgq.lease l
    cross join lateral pgq._read_ids(l.lease_id, l.attempt, l.until, l.ids) m
    where l.lease_id = token;
end;
comment on function pgq._read_lease(bigint) is 'The messages of a lease.';
$pgq_script$;
    execute $pgq_script$
-- sql/49_lease/release.sql

-- Releases messages as if they had not been claimed: the attempt is not counted.
create or replace function pgq.release(
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
        if v_part.runs then
            v_part := pgq._return_runs(v_part, null, delay, v_now);
            continue when v_part.size = 0;
        end if;
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
    'Releases messages of a lease that did not fail. The attempt is not counted, and they can be '
    'claimed again immediately, or after the delay. For a consumer that stops, or that wants '
    'other messages. Returns how many. QU003 if the lease does not hold them.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/any_matches.sql

-- Whether a set holds a message that matches a filter. Claims without a filter do not pay for the
-- test: a function that is not called costs less than a subquery that is not run.
create or replace function pgq._any_matches(
    filter pgq.filter, ids int8multirange, attempt int, now timestamptz
) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_path jsonpath := (array[filter.path])[1];  -- unpacked once: see pgq._find_matches
begin
    return exists (
        select from unnest(ids) u (ids)
        join pgq.message m on m.id >= lower(u.ids) and m.id < upper(u.ids)
        where pgq._matches(v_path, filter.scope, m, attempt, now));
end
$$;
comment on function pgq._any_matches(pgq.filter, int8multirange, int, timestamptz) is
    'Whether a set holds a message that matches a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/await_rows.sql

-- Waits a moment for claims that are taking from these ready rows; true if they have ended. Keeps
-- no lock: two claims that have waited for the same row would lock each other out of it. Requests
-- the lock that claims take, so that it waits for other waiters too: a weaker lock would be granted
-- at once, and would keep all claims from taking.
create or replace function pgq._await_rows(rows tid[]) returns boolean
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
    'Waits a moment for claims that are taking from these ready rows.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/budget.sql

-- What the limits of a whole queue allow a claim of n messages to take.
--
-- A claim has to know what others have taken and not committed yet, and must not wait for their
-- commits: then the claims of a queue would be as slow as the disk. So a limit is cut into up to 16
-- shards, each with a part of the permits and of the tokens, and a claim locks as many shards as it
-- needs. No open transaction has taken from a shard that the claim has locked. The claim waits for
-- a shard only if every shard that has something left is locked.
create or replace function pgq._budget(
    queue_id int, limits pgq.queue_limit, n int, first bigint, now timestamptz
) returns pgq._budget
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := pgq._shards(limits);
    v_burst int := pgq._burst(limits.rate, limits.burst);
    v_start int := floor(random() * v_count)::int;
    v_used int8multirange;
    v_leased int;
    v_busy int;
    v_shard int;
    v_tokens int := 0;
    v_room int[];
    v_sums int[];
    v_budget pgq._budget;
begin
    v_budget.shards := '{}';
    for v_round in 1 .. 4 loop
        -- The first round locks one shard that nobody has locked, the second other shards that
        -- have something left, as far as that is known; later rounds wait.
        v_busy := null;
        v_sums := array[case when v_budget.permits is not null then
                            pgq._set_size(v_budget.permits) end, v_tokens];
        for i in 0 .. v_count - 1 loop
            v_shard := (v_start + i) % v_count;
            continue when v_shard = any (v_budget.shards);
            if v_round > 1 then
                v_room := pgq._shard_room(queue_id, limits, v_count, v_shard, v_used, now);
                continue when not coalesce(v_sums[1] < n and v_room[1] > 0, false)
                    and not coalesce(v_sums[2] < n and v_room[2] > 0, false);
            end if;
            perform from pgq.flow f
            where f.queue_id = _budget.queue_id and f.lane = pgq._shard_lane(v_shard)
              and f.full_at = 'epoch'
            for update skip locked;
            if found then
                v_budget.shards := v_budget.shards || v_shard;
                exit when v_round = 1;
                v_sums := array[v_sums[1] + v_room[1], v_sums[2] + v_room[2]];
                exit when least(v_sums[1], v_sums[2]) >= n;
            else
                v_busy := v_shard;
            end if;
        end loop;
        -- A new statement sees what was committed before the locks were granted.
        if limits.max_leased is not null then
            select coalesce(range_agg(case when upper(l.permits) - lower(l.permits) = l.size
                                      then l.permits
                                      else pgq._first_ids(l.permits, l.size) end), '{}'),
                   coalesce(sum(l.size), 0)::int
            into v_used, v_leased
            from pgq.lease l
            where l.queue_id = _budget.queue_id and l.flow is not null
              and l.lease_id >= coalesce(first, 0);
        end if;
        v_budget.n := n;
        v_budget.permits := case when limits.max_leased is not null then '{}'::int8multirange end;
        v_budget.full_at := '{}';
        v_budget.tokens := '{}';
        v_tokens := 0;
        for i in 1 .. cardinality(v_budget.shards) loop
            v_shard := v_budget.shards[i];
            if limits.max_leased is not null then
                v_budget.permits := v_budget.permits
                    + (pgq._shard_permits(limits, v_count, v_shard) - v_used);
            end if;
            if limits.step is not null then
                v_budget.full_at[i] := (
                    select f.full_at from pgq.flow f
                    where f.queue_id = _budget.queue_id and f.lane = pgq._shard_lane(v_shard)
                    order by f.full_at desc limit 1);
                v_budget.tokens[i] := pgq._tokens(
                    v_budget.full_at[i], limits.step * v_count,
                    pgq._shard_burst(v_burst, v_count, v_shard), now);
                v_tokens := v_tokens + v_budget.tokens[i];
            end if;
        end loop;
        if limits.max_leased is not null then
            v_budget.n := least(
                v_budget.n, pgq._set_size(v_budget.permits), limits.max_leased - v_leased);
        end if;
        if limits.step is not null then
            v_budget.n := least(v_budget.n, v_tokens);
        end if;
        exit when v_budget.n >= n or v_round > 1 and (v_budget.n > 0 or v_busy is null)
            or v_round > 2 and not pgq._lock_flow(queue_id, pgq._shard_lane(v_busy));
    end loop;
    v_budget.n := case when v_budget.shards = '{}' then 0 else greatest(v_budget.n, 0) end;
    return v_budget;
end
$$;
comment on function pgq._budget(int, pgq.queue_limit, int, bigint, timestamptz) is
    'What the limits of a queue allow a claim to take.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/check_claim.sql

-- Checks the arguments of a claim that are not the most common ones.
create or replace function pgq._check_claim(
    caller name, topic text, n int, lease interval, done bigint
) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner boolean := pgq._is_owner(caller);
begin
    if not v_owner then
        perform pgq._require(caller, 'consume', topic);
        if done is not null then
            perform pgq._require_lease(caller, done);
        end if;
    end if;
    perform pgq._queue(topic, v_owner);  -- QU001 comes before the errors below
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
end
$$;
comment on function pgq._check_claim(name, text, int, interval, bigint) is
    'Checks the rights and the arguments of a claim.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/claim.sql

-- Takes up to n messages of a queue that match the filter, for the duration of a lease.
--
-- The low watermark says what the row at the head of the queue looks like. Most heads are taken by
-- one of three fast paths, each of which is one statement that deletes ready rows and writes the
-- lease: _take_row, _take_singles and _take_part. pgq._claim does everything else, and runs when a
-- fast path has taken nothing.
create or replace function pgq.claim(
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
    v_queue record;
    v_low pgq._low;
    v_upkeep bigint;
    v_now timestamptz;
    v_until timestamptz;
    v_lease pgq._fast_lease;
    v_taken pgq._taken;
    v_span bigint;
    v_slot int;  -- of all messages in the lease; null: not known
    v_count int;
begin
    -- All uncommon arguments in one IF: PL/pgSQL evaluates every IF as a separate expression.
    if (n between 1 and 1000000 and lease is null and caller = current_user) is not true then
        perform pgq._check_claim(caller, topic, n, lease, done);
        lease := case when lease is not null then least(
            lease, (select pgq._lease_span(q.max_lease, '10 years') from pgq.queue q
                    where q.name = claim.topic)) end;
    end if;
    if done is not null then
        v_count := pgq.ack(done);
    end if;
    -- Only the columns that a fast path needs. The duration is in seconds, so that no stored
    -- interval can make its computation fail.
    select q.queue_id, q.mode, q.secret, q.journal = 'all' as journal,
           q.paused or q.limited or q.mode <> 'queue' as special,
           least(date_part('epoch', coalesce(claim.lease, q.lease)), 601) as seconds
    into v_queue
    from pgq.queue q where q.name = claim.topic;
    v_low := pgq._low_get(current_setting('pgq.low_' || v_queue.queue_id, true), v_queue.secret);
    -- No fast path for a lease of more than ten minutes, which may be an interval of months.
    if filter is null and key is null and not v_queue.special
       and v_queue.seconds > 0 and v_queue.seconds <= 600
       and current_setting('transaction_isolation') = 'read committed'
    then
        v_now := pgq.now();
        if v_low.tick is distinct from pgq._low_tick(v_now) then
            v_upkeep := v_low.upkeep;
            v_low := (
                select (pgq._find_head(q, pgq._upkeep_tick(q, v_low, v_now), v_now)).low
                from pgq.queue q where q.queue_id = v_queue.queue_id);
            -- Empty, which is certain only if this call has done the upkeep: a claim by filter may
            -- have done it earlier in the tick.
            if v_low.size = 0 and v_low.upkeep > 0 and v_low.upkeep is distinct from v_upkeep then
                return;
            end if;
            v_now := pgq.now();
        end if;
        v_until := v_now + make_interval(secs => v_queue.seconds);
        if v_low.size = n then
            v_lease := pgq._take_row(v_queue.queue_id, v_low.rank, v_low.high, v_low.seen, n,
                                     v_queue.journal, v_now, v_until);
        elsif v_low.size = 1 then
            v_lease := pgq._take_singles(v_queue.queue_id, v_low.rank, v_low.seen, n,
                                         v_queue.journal, v_now, v_until);
        elsif v_low.size > n then
            v_lease := pgq._take_part(v_queue.queue_id, v_low.rank, v_low.high, v_low.seen, n,
                                      v_queue.journal, v_now, v_until);
        end if;
    end if;

    if v_lease.size is null then
        if v_queue.mode is distinct from 'queue' then
            perform pgq._refuse_claim(topic, pgq._is_owner(caller));
        end if;
        v_taken := pgq._claim(pgq._queue(topic), nullif(filter, '{}'), n, lease, key, v_low,
                              tended => v_until is not null);
        if (v_taken.size > 0) is not true then
            return;
        end if;
        -- The only row of the lease, if it has no others.
        select l.lease_id, l.size, l.attempt, l.ids, l.until
        into v_lease.lease_id, v_lease.size, v_lease.attempt, v_lease.ids, v_until
        from pgq.lease l where l.lease_id = v_taken.lease_id and l.size = v_taken.size;
    end if;
    v_span := upper(v_lease.ids) - lower(v_lease.ids);
    v_slot := case when lower(v_lease.ids) >= v_low.first_id
                        and v_low.era = pg_sequence_last_value('pgq.era_number')
              then (v_low.era % 3)::int end;
    if v_span <= pgq._limit('range_factor')::bigint * v_lease.size then
        return query
            select m.* from pgq._read_range(
                v_lease.lease_id, v_lease.attempt, v_until, lower(v_lease.ids),
                upper(v_lease.ids), v_slot) m
            where v_span = v_lease.size or v_lease.ids @> m.id;
    elsif v_lease.size > 0 then
        return query select * from pgq._read_ids(
            v_lease.lease_id, v_lease.attempt, v_until, v_lease.ids, v_slot);
    else
        return query
            select * from pgq._read_lease(v_taken.lease_id) m
            order by m.priority desc, m.attempt > 1 desc, m.id;
    end if;
    -- Otherwise the caller could acknowledge messages that it never got.
    get diagnostics v_count = row_count;
    if v_count < coalesce(v_lease.size, v_taken.size) then
        perform pgq._refuse_missing(coalesce(v_lease.lease_id, v_taken.lease_id));
    end if;
end
$$;
comment on function pgq.claim(text, jsonb, int, interval, text, bigint, pgq.caller) is
    'Claims up to n messages of a queue that match the filter, in delivery order, and holds them '
    'for the lease duration. All rows of a call have the same lease_id, the token for ack, nack, '
    'bury and extend. With a key the claim is named: the same key returns the same messages until '
    'they are acknowledged. With done, the lease id of the previous batch, that lease is '
    'acknowledged first: one call and one commit end a batch and claim the next. QU003 if that '
    'lease is stale; then nothing has changed.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/claim_take.sql

-- Takes up to n messages and writes the lease. Used by claim, and by hold for named claims that
-- are read later. A lease begins when the messages are taken, not when the call began. tended: the
-- caller has done upkeep, which is not repeated even if the next tick has begun.
create or replace function pgq._claim(
    queue pgq.queue, filter jsonb, n int, lease interval, key text, low pgq._low,
    endless boolean default false, tended boolean default false, runs boolean default false
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_upkeep bigint;
    v_claim pgq._claim;
    v_head pgq._queue_head;
    v_taken pgq._taken;
begin
    if key is not null then
        v_taken := pgq._named_claim(queue, key, lease, endless);
        if v_taken.size > 0 then
            return v_taken;
        end if;
        queue := pgq._queue(queue.name);  -- it may have changed while this claim waited
    end if;
    if queue.paused then
        return row(null, 0, null)::pgq._taken;
    end if;
    if not tended then
        v_upkeep := low.upkeep;
        low := pgq._upkeep_tick(queue, low, pgq.now());
        -- Claims that do not call _find_head store here that this tick has had its upkeep, and the
        -- era.
        if (queue.limited or filter is not null) and low.upkeep is distinct from v_upkeep then
            select e.number, e.first_id into low.era, low.first_id
            from pgq.era e where e.number = pg_sequence_last_value('pgq.era_number');
            perform pgq._low_set(queue.queue_id, queue.secret, low::text);
        end if;
    end if;
    v_claim := row(queue.queue_id, null, 0, n, null, null, queue.journal = 'all', key, null,
                   null, null)::pgq._claim;
    for i in 1 .. 5 loop
        v_claim.claimed_at := pgq.now();
        v_claim.until := case when endless then 'infinity'
                         else v_claim.claimed_at
                             + pgq._lease_span(coalesce(lease, queue.lease)) end;
        if queue.limited then
            v_taken := pgq._take_limited(queue, v_claim, filter, low);
        elsif filter is null then
            v_head := pgq._find_head(queue, low, v_claim.claimed_at, n);
            low := v_head.low;
            v_taken := pgq._take_head(v_claim, v_head);
        else
            v_taken := pgq._take_matching(queue, v_claim, filter);
        end if;
        exit when v_taken.size > 0;
        -- Nothing found: do upkeep; repeatedly for ordering groups, where the end of an expired
        -- message makes the next one ready. Or wait a moment for claims that are taking a part of a
        -- row, because they put the rest back.
        continue when (i = 1 or exists (select from pgq.group_head h
                                        where h.queue_id = queue.queue_id))
            and pgq._upkeep(queue, low.lease, low.due, v_claim.claimed_at) > 0;
        exit when v_taken.missed is null or not pgq._await_rows(v_taken.missed);
    end loop;
    if runs and v_taken.size between 1 and n - 1 and not queue.limited then
        v_taken.size := v_taken.size + pgq._take_runs(
            queue, v_taken.lease_id, filter, n - v_taken.size, v_claim.claimed_at);
    end if;
    return v_taken;
end
$$;
comment on function pgq._claim(
    pgq.queue, jsonb, int, interval, text, pgq._low, boolean, boolean, boolean) is
    'Takes messages and writes their lease.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/cursor.sql

-- Scan cursors of filters, shared by all sessions: no ready row before the rank that the snapshot
-- could see holds a match.
create or replace function pgq._cursor_get(filter_id bigint, queue_id int) returns pgq._low
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return null;
    end if;
    return (
        select s.low from pgq.filter_scan s
        where s.filter_id = _cursor_get.filter_id and s.queue_id = _cursor_get.queue_id
        order by s.noted_at desc limit 1);
end
$$;
comment on function pgq._cursor_get(bigint, int) is 'The scan cursor of a filter.';

-- Whether to store a new cursor: the claim has tested many messages or skipped many rows, or the
-- cursor that it began with is a second old.
create or replace function pgq._cursor_is_due(
    low pgq._low, tested bigint, skipped bigint, now timestamptz
) returns boolean
language sql stable
return tested >= pgq._limit('cursor_tests') or skipped >= pgq._limit('cursor_rows')
    or low.tick is null or abs(pgq._low_tick(now) - low.tick) > pgq._limit('ticks');
comment on function pgq._cursor_is_due(pgq._low, bigint, bigint, timestamptz) is
    'Whether a claim stores a new scan cursor.';

-- Stores a cursor. Does not wait for another claim that stores one.
create or replace function pgq._cursor_set(
    filter_id bigint, queue pgq.queue, low pgq._low, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old record;
begin
    select s.ctid as place, (s.low).seen as seen into v_old from pgq.filter_scan s
    where s.filter_id = _cursor_set.filter_id and s.queue_id = queue.queue_id
    order by s.noted_at desc limit 1;
    if pg_snapshot_xmax(v_old.seen) > pg_snapshot_xmax(low.seen)
       or current_setting('transaction_isolation') <> 'read committed'
       -- The lanes may have changed since the queue was read: the scan may have left out rows.
       or not exists (select from pgq.queue q
                      where q.queue_id = queue.queue_id
                        and q.lane_keys is not distinct from queue.lane_keys
                        and q.unlaned_rows = queue.unlaned_rows)
    then
        return;
    end if;
    low.tick := pgq._low_tick(now);
    if v_old.place is null then
        insert into pgq.filter_scan (filter_id, queue_id, low, noted_at)
        values (_cursor_set.filter_id, queue.queue_id, _cursor_set.low, now);
    else
        update pgq.filter_scan s set low = _cursor_set.low, noted_at = now
        where s.ctid = (select o.ctid from pgq.filter_scan o
                        where o.ctid = v_old.place for update skip locked);
    end if;
end
$$;
comment on function pgq._cursor_set(bigint, pgq.queue, pgq._low, timestamptz) is
    'Stores the scan cursor of a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/find_head.sql

-- Finds the next rows of a queue, and stores the low watermark.
--
-- The head is the first ready row that this transaction can see and that has not expired: not the
-- first that it can lock, because another claim may roll back. Late rows come before the watermark
-- and were not visible when it was stored. While there are any, the watermark stays where it is.
create or replace function pgq._find_head(
    queue pgq.queue, low pgq._low, now timestamptz, n int default 1
) returns pgq._queue_head
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head pgq._queue_head;
    v_tick bigint := pgq._low_tick(now);
    -- The snapshot first: rows that commit later are late rows for the next claim.
    v_seen pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_new bigint := 0::bigint;  -- rows that were made since the watermark
    v_late boolean;
    v_walked bigint;
    v_text text;
begin
    if (v_tick - low.since between 0 and pgq._limit('ticks') * pgq._limit('watermark_seconds')
        and current_setting('transaction_isolation') = 'read committed') is not true
    then
        low.rank := null;
    elsif low.size is not null then
        select count(*), bool_or(n.rank < low.rank) into v_new, v_late
        from (select r.rank from pgq.ready r
              where r.queue_id = queue.queue_id and r.xid >= pg_snapshot_xmin(low.seen)
              order by r.xid limit pgq._limit('late_rows')) n;
    end if;
    if low.rank is not null and (v_late or low.size is null) then
        v_head.late := pgq._late_rows(queue.queue_id, low, pgq._limit('late_rows'));
        v_new := (v_head.late).found;
    end if;
    if low.rank is null or v_new >= pgq._limit('late_rows') then
        -- No watermark, an old one, or too many new rows: begin at the very first row.
        v_head.late := null;
        low.rank := pgq._rank_first();
        low.since := v_tick;
    end if;
    if low.expired then
        select p.places[1], p.rank, p.size, p.suspect, p.places, p.walked
        into v_head.place, v_head.rank, v_head.size, v_head.suspect, v_head.places, v_walked
        from pgq._past_expired(queue.queue_id, now, low.rank, n) p;
    else
        select r.ctid, r.rank, r.size, r.suspect
        into v_head.place, v_head.rank, v_head.size, v_head.suspect
        from pgq.ready r
        where r.queue_id = queue.queue_id and r.rank >= low.rank
          and (r.expires_at is null or r.expires_at > now)
        order by r.rank limit 1;
    end if;

    if (v_head.late).places is not null then
        low.size := null;
    else
        -- Without a head all rows were read: new messages arrive behind the last id.
        low.rank := coalesce(v_walked, v_head.rank, greatest(
            low.rank, pgq._rank(0, false, pg_sequence_last_value('pgq.message_id'))));
        low.seen := v_seen;
        low.own := v_own;
        -- No fast path while there may be many new rows, which it looks up without a limit; nor if
        -- the watermark is not the head, because it begins there.
        low.size := case when v_head.place is null then 0
                    when v_walked < v_head.rank then null
                    when pgq._low_is_exact(queue.queue_id, v_seen) then v_head.size end;
        -- An index scan that is to return one row compares all entries of its leaf page, about
        -- 260, unless the page passes an upper bound. The bound saves a fast path 50,000
        -- instructions of 600,000.
        if low.size > 0 then
            select e.number, e.first_id into low.era, low.first_id
            from pgq.era e where e.number = pg_sequence_last_value('pgq.era_number');
            select case when count(*) = pgq._limit('window_rows') then max(w.rank)
                   else pgq._rank_last() end
            into low.high
            from (select r.rank from pgq.ready r
                  where r.queue_id = queue.queue_id and r.rank >= low.rank
                  order by r.rank limit pgq._limit('window_rows')) w;
        end if;
    end if;
    low.tick := v_tick;
    v_text := low::text;
    v_text := pgq._low_set(queue.queue_id, queue.secret, v_text);
    v_head.low := low;
    return v_head;
end
$$;
comment on function pgq._find_head(pgq.queue, pgq._low, timestamptz, int) is
    'Finds the next rows of a queue and stores its low watermark.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/find_matches.sql

-- The first n messages that match a filter, in order: the rows that hold them and which of their
-- ids match. Searches the given rows; or, without any, the next rows of the lanes that can hold a
-- match, or of the whole queue. Locks nothing.
create or replace function pgq._find_matches(
    claim pgq._claim, filter pgq.filter, lanes pgq._lanes, among tid[]
) returns pgq._found
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_found pgq._found;
    -- Not fields of the record, which take longer to read for each message. And out of an array,
    -- which never holds packed values: a short value that comes from a row is packed, and each test
    -- of a message would unpack it. That is a quarter of a test.
    v_path jsonpath := (array[filter.path])[1];
    v_scope text := filter.scope;
    v_equal jsonb := (array[filter.equal])[1];
    v_sure boolean := lanes.kept = lanes.sure and lanes.hashes is null;  -- nothing to be tested
    -- A scan that has tested everything leaves the cursor where new messages arrive.
    v_end bigint := greatest(
        claim.low, pgq._rank(0, false, pg_sequence_last_value('pgq.message_id') + 1));
    v_scan pgq._scan;
    v_count bigint;
    v_last bigint;
begin
    v_found.tested := 0;
    v_found.low := claim.low;
    if among is null and lanes.by_lane then
        select array_agg(p.place), max(p.rank) + 1, max(p.rank), coalesce(sum(p.size), 0)
        into among, v_found.low, v_found.high, v_found.tested
        from pgq._peek_rows(claim.queue_id, lanes, claim.low,
                            case when v_sure then claim.n else 4 * claim.n end) p;
        v_found.high := coalesce(v_found.high, v_end);
        if v_sure then
            v_found.tested := 0;
            v_found.places := among;
        end if;
        if v_sure or among is null then
            return v_found;
        end if;
    elsif among is not null then
        select coalesce(sum(r.size), 0) into v_found.tested
        from pgq.ready r
        where r.ctid = any (among) and r.unmatched_by is distinct from coalesce(filter.filter_id, 0)
          and pgq._in_lanes(lanes, r.lane_id, r.hash);
    end if;
    if among is not null then
        select array_agg(h.place), array_agg(h.ids), array_agg(h.count), max(h.rank), sum(h.count)
        into v_found.places, v_found.sets, v_found.counts, v_last, v_count
        from (
            select x.place, x.rank, range_agg(int8range(x.id, x.id + 1)) as ids,
                   count(*)::int as count
            from (
                select r.place, r.rank, m.id
                -- Separate: else the planner would find the rows by walking through all ranks.
                from (select t.ctid as place, t.* from pgq.ready t
                      where t.ctid = any (among) offset 0) r
                cross join lateral pgq._spans(r.ids, r.size) u
                join pgq.message m on m.id >= u.first and m.id < u.behind
                where r.queue_id = claim.queue_id
                  and r.unmatched_by is distinct from coalesce(filter.filter_id, 0)
                  and (r.expires_at is null or r.expires_at > claim.claimed_at)
                  and pgq._in_lanes(lanes, r.lane_id, r.hash)
                  and (u.among is null or u.among @> m.id)
                  and case when v_equal is not null then m.headers @> v_equal
                      else pgq._matches(v_path, v_scope, m, r.attempt + 1, claim.claimed_at) end
                order by r.rank limit claim.n
            ) x
            group by 1, 2
        ) h;
        if v_count = claim.n then  -- rows behind the last match are not tested yet
            v_found.partly := v_last;
            v_found.high := least(v_found.high, v_last);
            v_found.low := least(v_found.low, v_last + 1);
        end if;
        return v_found;
    end if;

    if v_scope = 'headers' then
        v_scan := pgq._scan_headers(claim, v_path, v_equal, filter.filter_id, lanes);
    else
        v_scan := pgq._scan_messages(claim, v_path, v_scope, filter.filter_id, lanes);
    end if;
    v_found.places := v_scan.places;
    v_found.sets := v_scan.sets;
    v_found.counts := v_scan.counts;
    v_count := v_scan.count;
    v_last := v_scan.last;
    v_found.high := case when v_count < claim.n then v_end else v_last end;
    v_found.low := case when v_count = claim.n then v_last + 1 end;
    v_found.partly := case when v_count = claim.n then v_last end;
    select coalesce(sum(t.size) filter (where t.tested), 0), count(*) filter (where not t.tested)
    into v_found.tested, v_found.skipped
    from (
        select r.size, r.unmatched_by is distinct from coalesce(filter.filter_id, 0) as tested
        from pgq.ready r
        where r.queue_id = claim.queue_id and r.rank >= claim.low
          -- One bound and no OR: the scan ends there instead of reading the rest of the queue.
          and r.rank <= case when v_count < claim.n then pgq._rank_last() else v_last end
          and pgq._in_lanes(lanes, r.lane_id, r.hash)
        order by r.rank offset 0
    ) t;
    return v_found;
end
$$;
comment on function pgq._find_matches(pgq._claim, pgq.filter, pgq._lanes, tid[]) is
    'The first messages that match a filter, and the ready rows that hold them.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/full_at.sql

-- When the token bucket of a queue or a lane is full.
create or replace function pgq._full_at(queue_id int, lane bigint) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select f.full_at from pgq.flow f
        where f.queue_id = _full_at.queue_id and f.lane = _full_at.lane
        order by f.full_at desc limit 1);
end
$$;
comment on function pgq._full_at(int, bigint) is 'When a token bucket is full.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/hold.sql

-- A named claim that does not read its messages: it returns the lease, which has no end unless one
-- is given. For consumers that read it in parts.
create or replace function pgq.hold(
    queue text,
    key text,
    filter jsonb default null,
    n int default 1,
    lease interval default null,
    runs boolean default false,
    caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint, lease_until timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', hold.queue);
    v_taken pgq._taken;
begin
    if hold.key is null or hold.key = '' then
        raise exception 'a claim to be held needs a name'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use a key that says whose it is, such as ''nightly-job 42''.';
    end if;
    perform pgq._check_claim(caller, hold.queue, hold.n, hold.lease, null);
    if v_queue.mode <> 'queue' then
        perform pgq._refuse_claim(hold.queue, pgq._is_owner(caller));
    end if;
    v_taken := pgq._claim(
        v_queue, nullif(hold.filter, '{}'), hold.n, hold.lease, hold.key,
        pgq._low_get(current_setting('pgq.low_' || v_queue.queue_id, true), v_queue.secret),
        endless => hold.lease is null, runs => hold.runs);
    return query
        select l.lease_id, sum(l.size), nullif(min(l.until), 'infinity') from pgq.lease l
        where l.lease_id = v_taken.lease_id and v_taken.size > 0 group by l.lease_id;
end
$$;
comment on function pgq.hold(text, text, jsonb, int, interval, boolean, pgq.caller) is
    'Makes a named claim without reading the messages, for consumers that read them in parts with '
    'pgq.lease_parts. Returns the lease and its number of messages, or no row if there are none '
    'to claim. The same key returns the same lease until it is acknowledged. Without a lease '
    'duration the lease never expires: pgq.leases lists it, and pgq.release ends it. With runs it '
    'claims the head of an ordering group and messages after it: see pgq.stream_claim.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/lane_heads.sql

-- The next lanes that have something to claim and are not known to be at their limits, in the order
-- of their turns: from the one after the last turn, and around. Each with its first row, or with
-- the first that holds a match, if there is a filter to be tested. Locks the lanes if they have
-- limits: full_at is then 1970, and null for lanes that others have locked or that are new.
create or replace function pgq._lane_heads(
    queue pgq.queue, claim pgq._claim, limits pgq.queue_limit, kept int[], first bigint, turn int,
    filter pgq.filter default null, low pgq._low default null
) returns pgq._head[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_burst int := pgq._burst(limits.lane_rate, limits.lane_burst);
    v_locked boolean := num_nonnulls(limits.lane_max_leased, limits.lane_step) > 0;
begin
    return array(
        select row(n.lane_id, n.lane, n.place, n.size, n.suspect, k.full_at, null)::pgq._head
        from (
            select c.lane_id, c.lane, h.place, h.size, h.suspect
            from (
                (select l.lane_id, pgq._lane_flow(l.label) as lane from pgq.lane l
                 where l.queue_id = queue.queue_id and l.lane_id > turn order by l.lane_id)
                union all
                (select l.lane_id, pgq._lane_flow(l.label) from pgq.lane l
                 where l.queue_id = queue.queue_id and l.lane_id <= turn order by l.lane_id)
            ) c
            cross join lateral (
                select r.ctid as place, r.size, r.suspect from pgq.ready r
                where r.lane_id = c.lane_id
                  and (r.expires_at is null or r.expires_at > claim.claimed_at)
                  and (filter.path is null
                       or r.unmatched_by is distinct from coalesce(filter.filter_id, 0)
                       -- Not rows that the filter has tested: see pgq._cursor_get.
                       and (low.rank is null or r.rank >= low.rank or r.xid = low.own
                            or not pg_visible_in_snapshot(r.xid, low.seen))
                       and pgq._any_matches(filter, r.ids, r.attempt + 1, claim.claimed_at))
                order by r.rank limit 1
            ) h
            where (kept is null or c.lane_id = any (kept))
              and (limits.lane_max_leased is null or (
                  select coalesce(sum(l.size), 0) from pgq.lease l
                  where l.queue_id = queue.queue_id and l.flow = c.lane
                    and l.lease_id >= coalesce(first, 0)) < limits.lane_max_leased)
              and (limits.lane_step is null or coalesce(pgq._tokens((
                  select f.full_at from pgq.flow f
                  where f.queue_id = queue.queue_id and f.lane = c.lane
                  order by f.full_at desc limit 1), limits.lane_step, v_burst, claim.claimed_at), 1)
                  > 0)
            -- As many lanes as give n messages in equal parts.
            limit ceil(claim.n::float8 / greatest(1, claim.n / pgq._limit('turns')))::int
        ) n
        left join lateral (
            select f.full_at from pgq.flow f
            where v_locked and f.queue_id = queue.queue_id and f.lane = n.lane
              and f.full_at = 'epoch'
            for update skip locked) k on true);
end
$$;
comment on function pgq._lane_heads(
    pgq.queue, pgq._claim, pgq.queue_limit, int[], bigint, int, pgq.filter, pgq._low) is
    'The next lanes that have messages to claim.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/lane_matches.sql

-- Locks rows of lanes that hold messages which match a filter, as many as each lane is to give.
create or replace function pgq._lane_matches(claim pgq._claim, heads pgq._head[], filter pgq.filter)
returns table (place tid, i bigint, ids int8multirange)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select h.place, h.i, h.ids
        from (
            select x.place, x.i, range_agg(int8range(x.id, x.id + 1)) as ids
            from unnest(heads) with ordinality
                c (lane_id, lane, place, size, suspect, full_at, quota, i)
            cross join lateral (
                select t.ctid as place, m.id, c.i from pgq.ready t
                cross join lateral unnest(t.ids) u (ids)
                join pgq.message m on m.id >= lower(u.ids) and m.id < upper(u.ids)
                where t.lane_id = c.lane_id and t.suspect = c.suspect
                  and t.unmatched_by is distinct from coalesce(filter.filter_id, 0)
                  and (t.expires_at is null or t.expires_at > claim.claimed_at)
                  and pgq._matches(filter.path, filter.scope, m, t.attempt + 1, claim.claimed_at)
                order by t.rank limit c.quota
            ) x
            group by 1, 2
        ) h
        cross join lateral (
            select from pgq.ready t where t.ctid = h.place for update skip locked) l;
end
$$;
comment on function pgq._lane_matches(pgq._claim, pgq._head[], pgq.filter) is
    'Locks rows of lanes that hold messages which match a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/lane_quotas.sql

-- How many messages a claim takes from each of these lanes: equal parts of n, or what the limits of
-- the lane allow. Lanes with limits that _lane_heads could not lock are left out, except new ones.
-- Suspects are delivered alone, so a lane that begins with them is taken alone or not now.
create or replace function pgq._lane_quotas(
    queue_id int, claim pgq._claim, limits pgq.queue_limit, first bigint, heads pgq._head[]
) returns pgq._head[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_burst int := pgq._burst(limits.lane_rate, limits.lane_burst);
    v_locked boolean := num_nonnulls(limits.lane_max_leased, limits.lane_step) > 0;
    v_done bigint[] := '{}';
    v_head pgq._head;
    v_heads pgq._head[] := '{}';
    v_left int := claim.n;
    v_chance float8 := random();
    v_count int := cardinality(heads);
begin
    if v_locked then
        for i in 1 .. v_count loop
            if (heads[i]).full_at is null and pgq._new_lane(queue_id, (heads[i]).lane) then
                heads[i].full_at := 'epoch';
            end if;
        end loop;
        -- A new statement sees what was committed before the locks were granted.
        heads := array(
            select row(h.lane_id, h.lane, h.place, h.size, h.suspect, b.full_at, least(
                       limits.lane_max_leased - (
                           select coalesce(sum(l.size), 0)::int from pgq.lease l
                           where l.queue_id = _lane_quotas.queue_id and l.flow = h.lane
                             and l.lease_id >= coalesce(first, 0)),
                       case when limits.lane_step is not null then pgq._tokens(
                           b.full_at, limits.lane_step, v_burst, claim.claimed_at) end
                   ))::pgq._head
            from unnest(heads) with ordinality
                h (lane_id, lane, place, size, suspect, full_at, quota, i)
            cross join lateral (
                select case when limits.lane_step is not null then (
                           select f.full_at from pgq.flow f
                           where f.queue_id = _lane_quotas.queue_id and f.lane = h.lane
                           order by f.full_at desc limit 1) end as full_at) b
            where h.full_at is not null order by h.i);
        v_count := cardinality(heads);
    end if;
    for i in 1 .. v_count loop
        v_head := heads[i];
        exit when v_left < 1 or v_head.suspect and v_heads <> '{}';
        -- Equal parts; which lanes give one more is random, or it would always be the same lanes.
        v_head.quota := least(v_head.quota, v_left,
            (floor(claim.n::float8 * i / v_count + v_chance)
             - floor(claim.n::float8 * (i - 1) / v_count + v_chance))::int);
        -- The same lane may have been made twice.
        continue when v_head.quota < 1 or v_head.lane = any (v_done);
        v_heads := v_heads || v_head;
        v_done := v_done || v_head.lane;
        v_left := v_left - v_head.quota;
        exit when v_head.suspect;
    end loop;
    return v_heads;
end
$$;
comment on function pgq._lane_quotas(int, pgq._claim, pgq.queue_limit, bigint, pgq._head[]) is
    'How many messages a claim takes from each lane.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/lane_rows.sql

-- Locks the first rows of some lanes that hold as many messages as each of them is to give, or
-- that many that match a filter. Returns which of their ids to take, and how many of each lane. A
-- row of suspects is taken alone.
create or replace function pgq._lane_rows(
    claim pgq._claim, heads pgq._head[], filter pgq.filter, sure boolean,
    out places tid[], out sets int8multirange[], out size int, out sizes int[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row record;
begin
    size := 0;
    sizes := array_fill(0, array[cardinality(heads)]);
    for v_row in
        select h.place, c.i, case when h.ahead + h.size <= c.quota then h.ids
               else pgq._first_ids(h.ids, c.quota - h.ahead) end as ids,
               least(h.size, c.quota - h.ahead) as size
        from unnest(heads) with ordinality
            c (lane_id, lane, place, size, suspect, full_at, quota, i)
        cross join lateral (
            select r.*, (sum(r.size) over w - r.size)::int as ahead, row_number() over w as n,
                   bool_or(r.suspect) over w as suspected
            from (
                select t.ctid as place, t.rank, t.size, t.ids, t.suspect from pgq.ready t
                where t.lane_id = c.lane_id
                  and (t.expires_at is null or t.expires_at > claim.claimed_at)
                order by t.rank limit 1 + (c.quota - 1) / c.size for update skip locked
            ) r
            window w as (order by r.rank rows unbounded preceding)
        ) h
        where sure and h.ahead < c.quota and (h.n = 1 or not h.suspected)
        union all
        select m.place, m.i, m.ids, pgq._set_size(m.ids)
        from pgq._lane_matches(claim, heads, filter) m where not sure
    loop
        places := places || v_row.place;
        sets := sets || v_row.ids;
        size := size + v_row.size;
        sizes[v_row.i] := sizes[v_row.i] + v_row.size;
    end loop;
end
$$;
comment on function pgq._lane_rows(pgq._claim, pgq._head[], pgq.filter, boolean) is
    'Locks rows of lanes that hold as many messages as the claim takes from each lane.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/lock_flow.sql

-- Waits for the claim that has locked a lane or a shard; false if it keeps its transaction open.
-- Locks the row of 1970, which nobody changes: waiting claims leave no dead rows behind.
create or replace function pgq._lock_flow(queue_id int, lane bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
begin
    perform from pgq.flow f
    where f.queue_id = _lock_flow.queue_id and f.lane = _lock_flow.lane and f.full_at = 'epoch'
    for update;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._lock_flow(int, bigint) is
    'Waits for the claim that has locked a lane or a shard.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/named_claim.sql

-- The lease of a named claim, extended, if the name has one. Claims of one name wait for each
-- other, so that the second finds the lease of the first.
create or replace function pgq._named_claim(
    queue pgq.queue, key text, lease interval, endless boolean
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
    v_until timestamptz;
begin
    perform pgq._take_name(queue.queue_id, key);
    -- Locked, because another session may be ending the lease, or taking it back.
    select l.lease_id into v_taken.lease_id from pgq.lease l
    where l.queue_id = queue.queue_id and l.key = _named_claim.key
    order by l.part limit 1 for update;
    if found then
        v_until := case when endless then 'infinity'
                   else pgq.now() + pgq._lease_span(coalesce(lease, queue.lease)) end;
        update pgq.lease l set until = v_until
        where l.lease_id = v_taken.lease_id and l.until < v_until;
        select sum(l.size)::int into v_taken.size from pgq.lease l
        where l.lease_id = v_taken.lease_id;
    end if;
    return v_taken;
end
$$;
comment on function pgq._named_claim(pgq.queue, text, interval, boolean) is
    'The lease of an existing named claim.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/new_lane.sql

-- Inserts the row that claims of a lane lock, and so locks it. False if the row exists, or if
-- another claim is inserting it at this moment.
create or replace function pgq._new_lane(queue_id int, lane bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1ms'
as $$
begin
    if exists (select from pgq.flow f
               where f.queue_id = _new_lane.queue_id and f.lane = _new_lane.lane
                 and f.full_at = 'epoch')
    then
        return false;
    end if;
    insert into pgq.flow (queue_id, lane, full_at)
    values (_new_lane.queue_id, _new_lane.lane, 'epoch')
    on conflict on constraint flow_pkey do nothing;
    return found;
exception
    when lock_not_available then
        return false;
end
$$;
comment on function pgq._new_lane(int, bigint) is 'Inserts the row that claims of a lane lock.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/note_ruled_out.sql

-- Records that the lanes rule out every match of a filter, for pgq.filter_stats and pgq.findings():
-- at most once in five minutes, because such a claim should cost next to nothing. The time is
-- stored with the filter's scan cursor, which stays as it is.
create or replace function pgq._note_ruled_out(queue_id int, filter_id bigint, now timestamptz)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old record;
begin
    select s.ctid as place, s.noted_at into v_old from pgq.filter_scan s
    where s.filter_id = _note_ruled_out.filter_id and s.queue_id = _note_ruled_out.queue_id
    order by s.noted_at desc limit 1;
    if filter_id is null or v_old.noted_at > now - interval '5 min' then
        return;
    end if;
    if v_old.place is null then
        insert into pgq.filter_scan (filter_id, queue_id, low, noted_at)
        values (_note_ruled_out.filter_id, _note_ruled_out.queue_id,
                jsonb_populate_record(null::pgq._low, '{}'), now);
    else
        update pgq.filter_scan s set noted_at = now
        where s.ctid = (select o.ctid from pgq.filter_scan o
                        where o.ctid = v_old.place for update skip locked);
    end if;
    insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at)
    values (_note_ruled_out.filter_id, _note_ruled_out.queue_id, 1, 0, 0, now);
end
$$;
comment on function pgq._note_ruled_out(int, bigint, timestamptz) is
    'Records that the lanes rule out every match of a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/past_expired.sql

-- The first ready rows that have not expired, from a rank on, where many have expired: a claim must
-- not walk over a million of them. Reads a limited number of rows in order. If all of these have
-- expired, it skips the rest. An index of its own finds the rows that never expire, in order; of
-- the other rows, those that expire next are read. The result is sorted by rank. That is the order
-- of the queue, unless more rows than these are left and their times to live differ.
-- No rows: everything has expired. walked: all rows before this rank have expired. It is the rank
-- of the first row found, unless there may be others before it.
create or replace function pgq._past_expired(
    queue_id int, now timestamptz, low bigint, n int,
    out places tid[], out rank bigint, out size int, out suspect boolean, out walked bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_most constant int := pgq._limit('expired_rows');
    v_next constant int := greatest(n, v_most);  -- rows of one message each suffice
    v_count int;
begin
    select array_agg(w.place order by w.rank) filter (where w.lasts),
           min(w.rank) filter (where w.lasts), count(*)::int, max(w.rank)
    into places, rank, v_count, walked
    from (
        select r.ctid as place, r.rank,
               r.expires_at is null or r.expires_at > _past_expired.now as lasts
        from pgq.ready r
        where r.queue_id = _past_expired.queue_id and r.rank >= _past_expired.low
        order by r.rank limit v_most
    ) w;
    if places is null and v_count = v_most then
        select array_agg(o.place order by o.rank), min(o.rank),
               (count(*) filter (where o.expires))::int
        into places, rank, v_count
        from (
            (select r.ctid as place, r.rank, false as expires from pgq.ready r
             where r.queue_id = _past_expired.queue_id and r.expires_at is null and r.rank >= walked
             order by r.rank limit v_next)
            union all
            (select r.ctid, r.rank, true from pgq.ready r
             where r.queue_id = _past_expired.queue_id and r.expires_at > _past_expired.now
               and r.rank >= walked
             order by r.expires_at limit v_next)
        ) o;
        walked := case when v_count = v_next then walked else coalesce(rank, walked) end;
    else
        walked := rank;
    end if;
    select r.size, r.suspect into size, suspect from pgq.ready r where r.ctid = places[1];
end
$$;
comment on function pgq._past_expired(int, timestamptz, bigint, int) is
    'The first ready rows that have not expired, if many have.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/peek_rows.sql

-- The next ready rows of a queue, or of some of its lanes, in order, with about that many messages
-- in them. Locks nothing: another claim may have deleted or locked a row before it is taken.
create or replace function pgq._peek_rows(
    queue_id int, lanes pgq._lanes, low bigint, messages int
) returns table (place tid, rank bigint, lane_id int, attempt int, size int,
               expires_at timestamptz, ids int8multirange)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_most int := least(_peek_rows.messages, 1000);
    v_scans int[] := case when lanes.hashes is null then lanes.kept else lanes.stale end;
begin
    return query
        select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
        from (
            select r.*, sum(r.size) over (order by r.rank) - r.size as ahead
            from (
                (select t.ctid, t.* from pgq.ready t
                 where not lanes.by_lane and t.queue_id = _peek_rows.queue_id and t.rank >= low
                   and pgq._in_lanes(lanes, t.lane_id, t.hash)
                 order by t.rank limit v_most)
                union all
                -- One scan for each lane, or for each hash.
                (select p.* from unnest(v_scans) l (lane_id)
                 cross join lateral (
                     select t.ctid, t.* from pgq.ready t
                     where lanes.by_lane and t.lane_id = l.lane_id and t.rank >= low
                     order by t.rank limit v_most) p
                 order by p.rank limit v_most)
                union all
                (select p.* from unnest(lanes.hashes) h (hash)
                 cross join lateral (
                     select t.ctid, t.* from pgq.ready t
                     where lanes.by_lane and t.queue_id = _peek_rows.queue_id
                       and t.hash = h.hash and t.rank >= low
                       and t.lane_id = any (lanes.kept) and t.lane_id <> all (lanes.stale)
                     order by t.rank limit v_most) p
                 order by p.rank limit v_most)
            ) r
        ) s
        where s.ahead < messages
        order by s.rank;
end
$$;
comment on function pgq._peek_rows(int, pgq._lanes, bigint, int) is
    'The next ready rows that may hold a match.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/refuse_claim.sql

-- The errors of a claim from a queue that is missing, hidden from the caller, or an archive.
create or replace function pgq._refuse_claim(topic text, owner boolean) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._queue(topic, owner);  -- raises QU001
    raise exception 'queue "%" is an archive: it stores and does not deliver', topic
        using errcode = 'feature_not_supported',
              hint = 'Subscribe another queue to the topic, or read the log with pgq.read_log.';
end
$$;
comment on function pgq._refuse_claim(text, boolean) is
    'Raises an error for a queue that is missing or an archive.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/scan_headers.sql

-- The first n messages of a queue whose headers match a filter, in order: see _scan_messages. Most
-- filters test headers only. This statement reads no other column of a message, and so takes a
-- tenth less.
create or replace function pgq._scan_headers(
    claim pgq._claim, path jsonpath, equal jsonb, filter_id bigint, lanes pgq._lanes
) returns pgq._scan
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scan pgq._scan;
begin
    select array_agg(h.place), array_agg(h.ids), array_agg(h.count), max(h.rank),
           coalesce(sum(h.count), 0)
    into v_scan
    from (
        select x.place, x.rank, range_agg(int8range(x.id, x.id + 1)) as ids,
               count(*)::int as count
        from (
            select r.ctid as place, r.rank, m.id from pgq.ready r
            cross join lateral pgq._spans(r.ids, r.size) u
            join pgq.message m on m.id >= u.first and m.id < u.behind
            where r.queue_id = claim.queue_id and r.rank >= claim.low
              and r.unmatched_by is distinct from coalesce(_scan_headers.filter_id, 0)
              and (r.expires_at is null or r.expires_at > claim.claimed_at)
              and pgq._in_lanes(lanes, r.lane_id, r.hash)
              and (u.among is null or u.among @> m.id)
              and case when equal is not null then m.headers @> equal
                  else jsonb_path_match(m.headers, path, '{}', true) end
            order by r.rank limit claim.n
        ) x
        group by 1, 2
    ) h;
    return v_scan;
end
$$;
comment on function pgq._scan_headers(pgq._claim, jsonpath, jsonb, bigint, pgq._lanes) is
    'The first messages of a queue whose headers match a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/scan_messages.sql

-- The first n messages of a queue that match a filter, in order, by one flat statement that stops
-- at the n-th match: a message is tested in 0.2 us, and anything that works in chunks, or with an
-- aggregate per row, costs more than that. Locks nothing.
create or replace function pgq._scan_messages(
    claim pgq._claim, path jsonpath, scope text, filter_id bigint, lanes pgq._lanes
) returns pgq._scan
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scan pgq._scan;
begin
    select array_agg(h.place), array_agg(h.ids), array_agg(h.count), max(h.rank),
           coalesce(sum(h.count), 0)
    into v_scan
    from (
        select x.place, x.rank, range_agg(int8range(x.id, x.id + 1)) as ids,
               count(*)::int as count
        from (
            select r.ctid as place, r.rank, m.id from pgq.ready r
            cross join lateral pgq._spans(r.ids, r.size) u
            join pgq.message m on m.id >= u.first and m.id < u.behind
            where r.queue_id = claim.queue_id and r.rank >= claim.low
              and r.unmatched_by is distinct from coalesce(_scan_messages.filter_id, 0)
              and (r.expires_at is null or r.expires_at > claim.claimed_at)
              and pgq._in_lanes(lanes, r.lane_id, r.hash)
              and (u.among is null or u.among @> m.id)
              and pgq._matches(path, scope, m, r.attempt + 1, claim.claimed_at)
            order by r.rank limit claim.n
        ) x
        group by 1, 2
    ) h;
    return v_scan;
end
$$;
comment on function pgq._scan_messages(pgq._claim, jsonpath, text, bigint, pgq._lanes) is
    'The first messages of a queue that match a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/shard_room.sql

-- How many permits and tokens a shard had left when the permits in use were counted; null: it is
-- not limited by them.
create or replace function pgq._shard_room(
    queue_id int, limits pgq.queue_limit, shards int, shard int, used int8multirange,
    now timestamptz
) returns int[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array[
        case when limits.max_leased is not null then
            pgq._set_size(pgq._shard_permits(limits, shards, shard) - used) end,
        case when limits.step is not null then pgq._tokens(
            pgq._full_at(queue_id, pgq._shard_lane(shard)), limits.step * shards,
            pgq._shard_burst(pgq._burst(limits.rate, limits.burst), shards, shard), now) end];
end
$$;
comment on function pgq._shard_room(
    int, pgq.queue_limit, int, int, int8multirange, timestamptz) is
    'How many permits and tokens a shard had left.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/spend.sql

-- Takes tokens out of a bucket that is full at full_at. The new version of the row is at another
-- place of the index, where the next claim finds it first.
create or replace function pgq._spend(
    queue_id int, lane bigint, full_at timestamptz, step float8, tokens int, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_full timestamptz := greatest(full_at, now) + make_interval(secs => tokens * step);
begin
    update pgq.flow f set full_at = v_full
    where f.queue_id = _spend.queue_id and f.lane = _spend.lane and f.full_at = _spend.full_at
      and f.full_at > 'epoch';
    if not found then  -- the first tokens, or maintain() has removed a bucket that was full
        insert into pgq.flow (queue_id, lane, full_at)
        values (_spend.queue_id, _spend.lane, v_full);
    end if;
end
$$;
comment on function pgq._spend(int, bigint, timestamptz, float8, int, timestamptz) is
    'Takes tokens out of a bucket.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_first.sql

-- Takes up to n messages of a queue from its head: mostly a part of the row there.
create or replace function pgq._take_first(queue pgq.queue, claim pgq._claim, low pgq._low)
returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head pgq._queue_head;
    v_part pgq._fast_lease;
begin
    if low.tick is distinct from pgq._low_tick(claim.claimed_at) then
        v_head := pgq._find_head(queue, low, claim.claimed_at, claim.n);
        low := v_head.low;
    end if;
    if low.size > claim.n and claim.key is null then
        v_part := pgq._take_part(
            queue.queue_id, low.rank, low.high, low.seen, claim.n, claim.journal,
            claim.claimed_at, claim.until, claim.flow, claim.permits);
        if v_part.size > 0 then
            return row(v_part.lease_id, v_part.size, null)::pgq._taken;
        end if;
        v_head := null;
    end if;
    if v_head is null then
        v_head := pgq._find_head(queue, low, claim.claimed_at, claim.n);
    end if;
    return pgq._take_head(claim, v_head);
end
$$;
comment on function pgq._take_first(pgq.queue, pgq._claim, pgq._low) is
    'Takes messages from the head of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_firsts.sql

-- Fast path: the first row of each lane holds all messages that the claim takes from that lane. One
-- statement takes them and puts the rest back. Returns how many messages came from each lane: 0 if
-- its row is locked. By this path a claim of 10 from two lanes costs a fifth fewer instructions.
create or replace function pgq._take_firsts(claim pgq._claim, heads pgq._head[]) returns int[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row record;
    v_sizes int[] := array_fill(0, array[cardinality(heads)]);
    v_class bigint;
    v_lease pgq.lease;
    v_leases pgq.lease[] := '{}';
    v_last int := 0;
begin
    for v_row in
        with taken as (
            delete from pgq.ready r
            using (
                select h.i, h.lane, h.quota, f.place
                from unnest(heads) with ordinality
                    h (lane_id, lane, place, size, suspect, full_at, quota, i)
                cross join lateral (
                    select t.ctid as place from pgq.ready t
                    where t.lane_id = h.lane_id and not t.suspect
                      and (t.expires_at is null or t.expires_at > claim.claimed_at)
                    order by t.rank limit 1 for update skip locked) f
                offset 0
            ) p
            where r.ctid = p.place
            returning r.*, p.i, p.lane, least(r.size, p.quota) as count,
                      pgq._first_ids(r.ids, p.quota) as took
        ), rest as (
            insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                                   suspect, hash, unmatched_by, failures, ids)
            select t.queue_id, t.lane_id,
                   pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
                   t.size - t.count, pg_current_xact_id(), t.expires_at, t.grouped, t.suspect,
                   t.hash, t.unmatched_by, t.failures, t.ids - t.took
            from taken t
            where t.size > t.count
        )
        select t.i, t.count, pgq._rank_class(t.rank) as class, t.attempt, t.failures, t.grouped,
               t.took, t.lane
        from taken t
    loop
        v_sizes[v_row.i] := v_row.count;
        -- One lease row for all that are alike, unless lanes are counted.
        if v_last > 0 and claim.flow is distinct from 1 and v_row.class = v_class
           and v_row.attempt = v_lease.attempt and v_row.grouped = v_lease.grouped
           and v_row.failures is not distinct from v_lease.failures
        then
            v_lease.size := v_lease.size + v_row.count;
            v_lease.ids := v_lease.ids + v_row.took;
        else
            v_last := v_last + 1;
            v_class := v_row.class;
            v_lease.attempt := v_row.attempt;
            v_lease.size := v_row.count;
            v_lease.grouped := v_row.grouped;
            v_lease.failures := v_row.failures;
            v_lease.ids := v_row.took;
            v_lease.flow := case when claim.flow = 1 then v_row.lane else claim.flow end;
        end if;
        v_leases[v_last] := v_lease;
    end loop;
    for i in 1 .. v_last loop
        v_lease := v_leases[i];
        if claim.permits is not null then
            v_lease.permits := pgq._first_ids(claim.permits, v_lease.size);
            claim.permits := claim.permits - v_lease.permits;
        end if;
        insert into pgq.lease (lease_id, claimed_at, until, queue_id, part, attempt, size, grouped,
                               journal, holder, client, key, failures, ids, flow, permits)
        values (claim.lease_id, claim.claimed_at, claim.until, claim.queue_id,
                case when v_last > 1 then i else 0 end, v_lease.attempt + 1, v_lease.size,
                v_lease.grouped, claim.journal, nullif(current_setting('application_name'), ''),
                inet_client_addr(), claim.key, v_lease.failures, v_lease.ids, v_lease.flow,
                v_lease.permits);
    end loop;
    return v_sizes;
end
$$;
comment on function pgq._take_firsts(pgq._claim, pgq._head[]) is
    'Takes messages out of the first rows of lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_head.sql

-- Takes up to n messages from the head of a queue, late rows first. A row of suspects is taken
-- alone.
create or replace function pgq._take_head(claim pgq._claim, head pgq._queue_head) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows record;
    v_size int := 0;
    v_needed bigint;
begin
    if num_nonnulls((head.late).places, head.place) > 0 then
        claim.lease_id := pgq._lease_token(claim.until);
    end if;
    if (head.late).places is not null then
        claim.part := 1;
        v_rows := pgq._take_rows(claim, (head.late).places[:claim.n]);
        claim.part := v_rows.part;
        claim.n := claim.n - v_rows.size;
        v_size := v_rows.size;
    end if;
    if claim.n > 0 and head.place is not null
       and (v_size = 0 or not ((head.late).suspect or head.suspect))
    then
        claim.low := head.rank;
        if head.places is null then
            v_size := v_size + pgq._take_some(claim, head.size);
        else
            -- As many of them as hold n messages.
            select count(*) filter (where s.ahead < claim.n) into v_needed
            from (select sum(r.size) over (order by r.rank) - r.size as ahead
                  from pgq.ready r where r.ctid = any (head.places)) s;
            head.places := array(
                select r.ctid from pgq.ready r where r.ctid = any (head.places)
                order by r.rank limit v_needed for update skip locked);
            v_rows := pgq._take_rows(claim, head.places);
            v_size := v_size + v_rows.size;
        end if;
    end if;
    return row(
        case when v_size > 0 then claim.lease_id end, v_size,
        -- Another claim may put back a part of these.
        case when head.size > 1 then array[head.place]
             when (head.late).size > 1 then (head.late).places end)::pgq._taken;
end
$$;
comment on function pgq._take_head(pgq._claim, pgq._queue_head) is
    'Takes messages from the head of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_limited.sql

-- Takes up to n messages of a queue that has limits, or whose lanes take turns.
--
-- The budget of the claim is what the limits of the whole queue allow (_budget). No more than that
-- is taken, so nothing is put back. _take_turns handles limits of lanes, and turns.
create or replace function pgq._take_limited(
    queue pgq.queue, claim pgq._claim, filter jsonb, low pgq._low
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit pgq.queue_limit;
    v_wanted int := claim.n;
    v_now timestamptz;
    v_budget pgq._budget;
    v_left int;
    v_spent int;
    v_lanes boolean;  -- lanes have limits
    v_turns boolean;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
begin
    select l.* into v_limit from pgq.queue_limit l where l.queue_id = queue.queue_id;
    v_lanes := num_nonnulls(v_limit.lane_max_leased, v_limit.lane_step) > 0;
    v_turns := v_lanes or coalesce(v_limit.fair, false);
    claim.flow := case when v_limit.lane_max_leased is not null then 1
                       when v_limit.max_leased is not null then 0 end;
    if current_setting('transaction_isolation') <> 'read committed'
       and (v_lanes or num_nonnulls(v_limit.max_leased, v_limit.step) > 0)
    then
        raise exception 'queue "%" has limits: claim it under READ COMMITTED', queue.name
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'An old snapshot does not show what others have claimed.';
    end if;
    if num_nonnulls(v_limit.max_leased, v_limit.step) > 0 then
        v_budget := pgq._budget(queue.queue_id, v_limit, claim.n, low.lease, claim.claimed_at);
        if v_budget.n < 1 or v_limit is distinct from (
            select l from pgq.queue_limit l where l.queue_id = queue.queue_id)
        then
            return v_taken;  -- if the limits have changed, alter_queue wakes sleeping consumers
        end if;
        -- The lease begins now, after the end of all leases that were counted as ended.
        v_now := pgq.now();
        claim.until := claim.until + (v_now - claim.claimed_at);
        claim.claimed_at := v_now;
        claim.n := v_budget.n;
        if v_budget.permits is not null then
            claim.permits := pgq._first_ids(v_budget.permits, v_budget.n);
        end if;
    end if;
    if v_turns then
        v_taken := pgq._take_turns(queue, claim, filter, v_limit, low);
    elsif filter is null then
        v_taken := pgq._take_first(queue, claim, low);
    else
        v_taken := pgq._take_matching(queue, claim, filter);
    end if;
    if v_lanes or v_budget.n > 0 then
        v_taken.missed := null;  -- a claim that has locked a shard or a lane must not wait
    end if;
    if v_taken.size > 0 then
        v_left := v_taken.size;
        for i in 1 .. coalesce(cardinality(v_budget.tokens), 0) loop
            v_spent := least(v_left, v_budget.tokens[i]);
            continue when v_spent < 1;
            v_left := v_left - v_spent;
            perform pgq._spend(
                queue.queue_id, pgq._shard_lane(v_budget.shards[i]), v_budget.full_at[i],
                v_limit.step * pgq._shards(v_limit), v_spent, claim.claimed_at);
        end loop;
        -- Wake other consumers, which may have found everything locked meanwhile and gone to sleep;
        -- not if the limits of the queue leave them nothing.
        if (v_turns or v_taken.size = v_wanted) and (claim.n = v_wanted or v_taken.size < claim.n)
           and exists (select from pgq.waiter)
        then
            perform pgq._wake(queue.queue_id);
        end if;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_limited(pgq.queue, pgq._claim, jsonb, pgq._low) is
    'Takes messages of a queue that has limits.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_matching.sql

-- Takes up to n messages that match a filter, in order, skipping rows that others are taking.
--
-- Ready rows are tested without a lock. Only rows that hold a match are locked, and their ids that
-- do not match go back at once. The scan cursor of the filter says how far it has tested: first
-- come rows that the cursor does not cover (late rows), then the rows behind it.
create or replace function pgq._take_matching(
    queue pgq.queue, claim pgq._claim, document jsonb
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The snapshot first: a cursor must not cover rows of a lane that is added after the lanes are
    -- read.
    v_seen pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_filter pgq.filter := pgq._keep_filter(queue, document);
    v_lanes pgq._lanes := pgq._keep_lanes(queue, v_filter);
    v_by_hash boolean := v_lanes.by_lane and v_lanes.hashes is not null;
    v_low pgq._low;
    v_late pgq._late;
    v_found pgq._found;
    v_rows record;
    v_size int;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
    v_tested bigint := 0::bigint;
    v_stop bigint;
    v_suspect boolean := false;
begin
    if v_lanes.kept = '{}' and not queue.unlaned_rows then
        perform pgq._note_ruled_out(queue.queue_id, v_filter.filter_id, claim.claimed_at);
        return v_taken;
    end if;
    if document::text ~ E'"\\$now"' then
        v_filter.filter_id := null;  -- a message that does not match now may match later
    end if;
    v_low := pgq._cursor_get(v_filter.filter_id, queue.queue_id);
    if v_low.seen is not null then
        v_late := pgq._late_rows(queue.queue_id, v_low, 2147483647, v_filter.filter_id);
    end if;
    claim.part := 1;
    claim.low := coalesce(v_low.rank, pgq._rank_first());
    v_found.among := v_late.places;
    loop
        v_found := pgq._find_matches(claim, v_filter, v_lanes, v_found.among);
        v_tested := v_tested + v_found.tested;
        if v_found.places is not null then
            if v_taken.lease_id is null then
                claim.lease_id := pgq._lease_token(claim.until);
                v_taken.lease_id := claim.lease_id;
            end if;
            v_size := null;
            if v_found.sets is not null and claim.n <= pgq._limit('one_lease_row') then
                v_size := (pgq._take_sets(
                    claim, v_found.places, v_found.sets, v_found.counts, v_filter.filter_id,
                    v_found.partly)).size;
            end if;
            if v_size is not null then
                claim.part := claim.part + 1;
            else
                v_rows := pgq._take_rows(
                    claim, v_found.places, v_found.sets, v_filter.filter_id, v_found.partly);
                v_size := v_rows.size;
                claim.part := v_rows.part;
                v_suspect := v_rows.suspect;
            end if;
            v_taken.size := v_taken.size + v_size;
            claim.n := claim.n - v_size;
            if claim.n > 0 or v_found.sets is null then
                -- Rows that others have locked. Others may roll back, so the cursor stays before
                -- them.
                select least(v_stop, min(r.rank)),
                       v_taken.missed || array_agg(r.ctid) filter (where r.size > 1)
                into v_stop, v_taken.missed
                from pgq.ready r
                where r.ctid = any (v_found.places) and r.queue_id + 0 = queue.queue_id;
            end if;
            if v_size = 0 then
                -- Rows that are gone: a claim that took from them may have put the rest back.
                v_taken.missed := nullif(v_taken.missed || array(
                    select p from unnest(v_found.places) p
                    where not exists (select from pgq.ready r where r.ctid = p)), '{}');
            end if;
            exit when claim.n = 0 or v_suspect;
        end if;
        exit when v_found.low is null;
        claim.low := v_found.low;
        v_found.among := null;
    end loop;
    if v_taken.size = 0 and v_tested > 0 then
        perform pgq._warn_of_testing(queue, document, v_tested);
    elsif v_taken.size = 0 and v_by_hash then
        perform pgq._note_ruled_out(queue.queue_id, v_filter.filter_id, claim.claimed_at);
    end if;
    if (v_tested > 0 or v_taken.size > 0) and v_filter.filter_id is not null then
        insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
        values (v_filter.filter_id, queue.queue_id, 1, v_tested, v_taken.size,
                claim.claimed_at, case when v_taken.size > 0 then claim.claimed_at end);
        -- No cursor while late rows are left, or if suspects have ended the scan.
        -- A scan by hash is short: a cursor would cost more, by the rows that it does not cover.
        if v_found.high is not null and not v_suspect
           and not (v_by_hash and v_tested < 10 * pgq._limit('cursor_tests'))
           and pgq._cursor_is_due(v_low, v_tested, v_found.skipped, claim.claimed_at)
        then
            v_low.rank := least(v_stop, v_found.high);
            v_low.seen := v_seen;
            v_low.own := v_own;
            perform pgq._cursor_set(v_filter.filter_id, queue, v_low, claim.claimed_at);
        end if;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_matching(pgq.queue, pgq._claim, jsonb) is
    'Takes messages that match a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_name.sql

-- Serializes claims of one name. A row that a transaction inserts and deletes keeps others from
-- inserting it until the transaction ends, and no row is left to be removed.
create or replace function pgq._take_name(queue_id int, key text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_what text := format('key %s %s', queue_id, hashtextextended(key, 0));
begin
    insert into pgq.mutex (what) values (v_what) on conflict on constraint mutex_pkey do nothing;
    delete from pgq.mutex t where t.what = v_what;
end
$$;
comment on function pgq._take_name(int, text) is 'Serializes claims of one name.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_part.sql

-- Fast path: the row at the head holds more than n messages. Batches that are claimed in smaller
-- batches make such heads. One statement takes the first n of them, puts the rest back and writes
-- the lease. Nothing changes, and nothing is returned, if the head is of another kind, or if there
-- may be late rows before it. By this path a claim of 10 out of a row of 100 costs half as many
-- instructions.
create or replace function pgq._take_part(
    queue_id int, low bigint, high bigint, seen pg_snapshot, n int, journal boolean,
    now timestamptz, until timestamptz, flow int default null,
    permits int8multirange default null
) returns pgq._fast_lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease pgq._fast_lease;
begin
    with taken as (
        delete from pgq.ready r
        where r.ctid = (
                select h.ctid from pgq.ready h
                where h.queue_id = _take_part.queue_id and h.rank >= low and h.rank <= high
                order by h.rank limit 1 for update skip locked)
          and r.size >= n
          and (r.expires_at is null or r.expires_at > now)
          and not exists (  -- found by xid: the ORDER BY leaves no other index
              select from pgq.ready k
              where k.queue_id = _take_part.queue_id
                and k.xid >= pg_snapshot_xmin(seen) and k.rank + 0 < low
                order by k.xid offset 0)
        returning r.lane_id, r.rank, r.attempt, r.size, r.expires_at, r.grouped, r.suspect,
                  r.hash, r.unmatched_by, r.failures, r.ids, pgq._first_ids(r.ids, n) as took
    ), rest as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select _take_part.queue_id, t.lane_id,
               pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
               t.size - n, pg_current_xact_id(), t.expires_at, t.grouped, t.suspect, t.hash,
               t.unmatched_by, t.failures, t.ids - t.took
        from taken t
        where t.size > n
    )
    insert into pgq.lease as l (
        lease_id, claimed_at, until, queue_id, part, attempt, size, grouped, journal, holder,
        client, key, failures, ids, flow, permits)
    select pgq._row_token(now, _take_part.until), now, _take_part.until,
           _take_part.queue_id, 0, t.attempt + 1, n, t.grouped, _take_part.journal,
           nullif(current_setting('application_name'), ''), inet_client_addr(), null, t.failures,
           t.took, _take_part.flow, _take_part.permits
    from taken t
    returning l.lease_id, l.size, l.attempt, l.ids into v_lease;
    -- A claim that has skipped the row meanwhile may have gone to sleep.
    if v_lease.size > 0 then
        if exists (select from pgq.waiter) then
            perform pgq._wake(_take_part.queue_id);
        end if;
    end if;
    return v_lease;
end
$$;
comment on function pgq._take_part(
    int, bigint, bigint, pg_snapshot, int, boolean, timestamptz, timestamptz, int,
    int8multirange) is
    'Takes the first messages of the row at the head.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_row.sql

-- Fast path: the row at the head holds just what is wanted. One statement deletes it and writes the
-- lease. Nothing changes, and nothing is returned, if the head is of another kind, or if there may
-- be late rows before it. With _take_part, which can put a rest back, it would cost a sixth more.
create or replace function pgq._take_row(
    queue_id int, low bigint, high bigint, seen pg_snapshot, n int, journal boolean,
    now timestamptz, until timestamptz
) returns pgq._fast_lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease pgq._fast_lease;
begin
    with taken as (
        delete from pgq.ready r
        where r.ctid = (
                select h.ctid from pgq.ready h
                where h.queue_id = _take_row.queue_id and h.rank >= low and h.rank <= high
                order by h.rank limit 1 for update skip locked)
          and (r.size = n or r.suspect and r.size < n)
          and (r.expires_at is null or r.expires_at > now)
          and not exists (  -- found by xid: the ORDER BY leaves no other index
              select from pgq.ready k
              where k.queue_id = _take_row.queue_id
                and k.xid >= pg_snapshot_xmin(seen) and k.rank + 0 < low
                order by k.xid offset 0)
        returning r.attempt, r.size, r.grouped, r.failures, r.ids
    )
    insert into pgq.lease as l (
        lease_id, claimed_at, until, queue_id, part, attempt, size, grouped, journal, holder,
        client, key, failures, ids)
    select pgq._row_token(now, _take_row.until), now, _take_row.until,
           _take_row.queue_id, 0, t.attempt + 1, t.size, t.grouped, _take_row.journal,
           nullif(current_setting('application_name'), ''), inet_client_addr(), null, t.failures,
           t.ids
    from taken t
    returning l.lease_id, l.size, l.attempt, l.ids into v_lease;
    return v_lease;
end
$$;
comment on function pgq._take_row(
    int, bigint, bigint, pg_snapshot, int, boolean, timestamptz, timestamptz) is
    'Takes the row at the head.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_rows.sql

-- Takes up to n messages out of the given ready rows, or only those of the given sets, and writes
-- the lease; the rest of each row goes back at once. Rows that another transaction has locked are
-- skipped. A row of suspects is taken alone. Returns how many were taken, the number of the next
-- part of the lease, and whether suspects were found: the claim takes no more then.
create or replace function pgq._take_rows(
    claim pgq._claim, places tid[], sets int8multirange[] default null,
    tested_by bigint default null, partly bigint default null,
    out size int, out part int, out suspect boolean)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_left int;
    -- Permits that earlier calls for the same claim have used.
    v_ahead bigint := case when claim.permits is not null then
        (pgq._set_size(claim.permits) - claim.n)::bigint end;
begin
    with locked as materialized (
        select r.ctid as place, r.*, coalesce(sets[array_position(places, r.ctid)] * r.ids, r.ids)
                   as wanted
        from pgq.ready r
        where r.ctid = any (places) and r.queue_id + 0 = claim.queue_id  -- + 0: not by its index
          and (r.expires_at is null or r.expires_at > claim.claimed_at)
        for update skip locked
    ), counted as (
        select l.*, s.count, sum(s.count) over w - s.count as ahead, row_number() over w as i,
               bool_or(l.suspect) over w as suspected,
               -- Thousands of ids with gaps become several lease rows of about 8 kB: to end one
               -- message rewrites its row. Ids without gaps take next to no space.
               sum(greatest(pg_column_size(l.wanted) - 64, 0)) over w / 8192 as chunk
        from locked l
        cross join lateral (
            select case when sets is null or l.wanted = l.ids then l.size
                   else pgq._set_size(l.wanted) end as count) s
        window w as (order by l.rank rows unbounded preceding)
    ), taken as materialized (
        select c.*, case when c.ahead + c.count <= claim.n then c.wanted
                    else pgq._first_ids(c.wanted, claim.n - c.ahead) end as took
        from counted c
        where c.ahead < claim.n and c.count > 0 and (c.i = 1 or not c.suspected)
    ), gone as (
        delete from pgq.ready r where r.ctid = any (array(select t.place from taken t))
    ), rest as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select t.queue_id, t.lane_id,
               pgq._rank_of(pgq._rank_class(t.rank), lower(t.ids - t.took)), t.attempt,
               t.size - least(t.count, claim.n - t.ahead), pg_current_xact_id(), t.expires_at,
               t.grouped, t.suspect, t.hash,
               -- The filter has tested all of it, unless the scan has ended in this row.
               case when t.ahead + t.count <= claim.n and tested_by is not null
                         and t.rank is distinct from partly then tested_by
               else t.unmatched_by end,
               t.failures, t.ids - t.took
        from taken t
        where t.ids <> t.took
        returning 1
    ), leased as (
        insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                    grouped, journal, holder, client, key, failures, ids, flow,
                                    permits)
        select claim.lease_id, claim.claimed_at, claim.until, claim.queue_id,
               case when count(*) over () = 1 then claim.part
               else greatest(claim.part, 1) + row_number() over (order by p.rank) - 1 end,
               p.attempt + 1, p.size, p.grouped, claim.journal,
               nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key,
               p.failures, p.ids, p.flow,
               -- Only the first permits count, as many as there are messages. No more than those
               -- are stored, so that other claims need not cut the set.
               case when claim.permits is null or v_ahead = 0 and p.size = claim.n
                   then claim.permits
               when v_ahead + sum(p.size) over w = p.size
                   then pgq._first_ids(claim.permits, p.size)
               else pgq._first_ids(claim.permits - pgq._first_ids(
                   claim.permits, v_ahead + sum(p.size) over w - p.size), p.size) end
        from (
            select t.attempt, t.failures, t.grouped, min(t.rank) as rank, range_agg(t.took) as ids,
                   sum(least(t.count, claim.n - t.ahead))::int as size, f.flow
            from taken t
            cross join lateral (
                select case when claim.flow = 1 then coalesce((
                           select pgq._lane_flow(k.label) from pgq.lane k
                           where k.lane_id = t.lane_id), 1) else claim.flow end as flow) f
            group by pgq._rank_class(t.rank), t.attempt, t.failures, t.grouped, f.flow, t.chunk
        ) p
        window w as (order by p.rank rows unbounded preceding)
        returning l.size, l.part
    )
    select coalesce(sum(l.size), 0)::int, coalesce(max(l.part) + 1, claim.part),
           (select count(*)::int from rest),
           coalesce((select bool_or(c.suspected) from counted c), false)
    into size, part, v_left, suspect
    from leased l;
    -- A claim that has skipped the row meanwhile may have gone to sleep.
    if v_left > 0 then
        if exists (select from pgq.waiter) then
            perform pgq._wake(claim.queue_id);
        end if;
    end if;
end
$$;
comment on function pgq._take_rows(pgq._claim, tid[], int8multirange[], bigint, bigint) is
    'Takes messages out of ready rows and writes their lease.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_runs.sql

-- Adds to a lease that was just written the messages that wait in line behind its group heads:
-- first deliveries of the same priority that match, up to the first that does not fit. Each group
-- gives about as many. Returns how many. Heads that have failed before stay alone.
create or replace function pgq._take_runs(
    queue pgq.queue, lease_id bigint, filter jsonb, room int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_row pgq.lease;
    v_run record;
    v_most int;
    v_left int := room;
begin
    if filter is not null then
        v_filter := pgq._find_filter(filter, queue.lane_keys);
    end if;
    for v_row in
        select l.* from pgq.lease l
        where l.lease_id = _take_runs.lease_id and l.grouped and l.attempt = 1
          and l.failures is null order by l.part
    loop
        -- Skips groups whose line an operator is changing. Does not block publishers.
        select array_agg(x.group_key) as keys, array_agg(x.id) as heads, min(x.priority) as priority
        into v_run
        from (
            select m.group_key, m.id, m.priority from unnest(v_row.ids) r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            join pgq.group_head h on h.queue_id = queue.queue_id and h.group_key = m.group_key
            for key share of h skip locked) x;
        while v_left > 0 and v_run.keys is not null loop
            v_most := ceil(v_left::float8 / cardinality(v_run.keys))::int;
            with line as (
                select k.key, k.head, g.message_id, row_number() over w as place,
                       bool_and(m.id > k.head and g.failures is null and g.due_at is null
                                and m.priority = v_run.priority
                                and coalesce(nullif(m.deliver_at, 'infinity') <= now, true)
                                and coalesce(m.expires_at > now, true)
                                and pgq._matches(v_filter.path, v_filter.scope, m, 1, now)
                               ) over w is true as fits
                from unnest(v_run.keys, v_run.heads) k (key, head)
                cross join lateral (
                    select l.message_id, l.failures, l.due_at from pgq.group_line l
                    where l.queue_id = queue.queue_id and l.group_key = k.key
                    order by l.message_id limit v_most) g
                left join pgq.message m on m.id = g.message_id
                window w as (partition by k.key order by g.message_id)
            ), chosen as (
                select l.* from line l where l.fits order by l.place, l.key limit v_left
            ), gone as (
                delete from pgq.group_line g using chosen c
                where g.queue_id = queue.queue_id and g.group_key = c.key
                  and g.message_id = c.message_id
                returning g.message_id, c.key, c.head
            ), open as (
                select g.key, g.head from gone g group by 1, 2 having count(*) = v_most
            )
            select (select array_agg(o.key order by o.key) from open o) as keys,
                   (select array_agg(o.head order by o.key) from open o) as heads,
                   v_run.priority as priority, count(*)::int as size,
                   coalesce(range_agg(int8range(g.message_id, g.message_id + 1)), '{}') as ids
            into v_run from gone g;
            v_row.ids := v_row.ids + v_run.ids;
            v_row.size := v_row.size + v_run.size;
            v_left := v_left - v_run.size;
        end loop;
        update pgq.lease l set runs = true, ids = v_row.ids, size = v_row.size
        where l.lease_id = v_row.lease_id and l.part = v_row.part;
    end loop;
    return room - v_left;
end
$$;
comment on function pgq._take_runs(pgq.queue, bigint, jsonb, int, timestamptz) is
    'Adds the messages after group heads to a lease.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_sets.sql

-- Takes the given ids out of ready rows, where a filter has found them. One statement locks the
-- rows, deletes them, puts the other ids back and writes the lease. It changes nothing, and returns
-- no size, if the messages cannot share a lease row: they differ in priority, attempt or failures,
-- or are suspects. _take_rows does all that, and costs a claim of 100 messages 15 % more.
create or replace function pgq._take_sets(
    claim pgq._claim, places tid[], sets int8multirange[], counts int[], tested_by bigint,
    partly bigint
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_taken pgq._taken;
    v_left boolean;
begin
    with locked as materialized (
        select r.ctid as place, r.*, sets[array_position(places, r.ctid)] as took,
               counts[array_position(places, r.ctid)] as count
        from pgq.ready r
        where r.ctid = any (places) and r.queue_id + 0 = claim.queue_id  -- + 0: not by its index
          and r.ids @> sets[array_position(places, r.ctid)]  -- else the place has got another row
          and (r.expires_at is null or r.expires_at > claim.claimed_at)
        for update skip locked
    ), alike as materialized (
        select array_agg(l.place) as places, range_agg(l.took) as ids, sum(l.count)::int as size,
               max(l.attempt) as attempt, bool_or(l.grouped) as grouped,
               bool_or(l.size > l.count) as rest
        from locked l
        having bool_and(l.failures is null and not l.suspect)
           and max(l.attempt) = min(l.attempt) and bool_or(l.grouped) = bool_and(l.grouped)
           and pgq._rank_class(max(l.rank)) = pgq._rank_class(min(l.rank))
    ), gone as (
        delete from pgq.ready r where r.ctid = any ((select a.places from alike a)::tid[])
    ), rest as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select l.queue_id, l.lane_id,
               pgq._rank_of(pgq._rank_class(l.rank), lower(l.ids - l.took)), l.attempt,
               l.size - l.count, pg_current_xact_id(), l.expires_at, l.grouped,
               false, l.hash,
               -- The filter has tested all of it, unless the scan has ended in this row.
               case when l.rank is distinct from partly then coalesce(tested_by, l.unmatched_by)
               else l.unmatched_by end, null, l.ids - l.took
        from locked l
        where l.size > l.count and exists (select from alike)
    )
    insert into pgq.lease as l (lease_id, claimed_at, until, queue_id, part, attempt, size,
                                grouped, journal, holder, client, key, failures, ids)
    select claim.lease_id, claim.claimed_at, claim.until, claim.queue_id,
           case when a.size = claim.n and claim.part = 1 then 0 else claim.part end,
           a.attempt + 1, a.size, a.grouped, claim.journal,
           nullif(current_setting('application_name'), ''), inet_client_addr(), claim.key, null,
           a.ids
    from alike a
    returning l.lease_id, l.size, (select a.rest from alike a)
    into v_taken.lease_id, v_taken.size, v_left;
    -- A claim that has skipped the row meanwhile may have gone to sleep.
    if v_left then
        if exists (select from pgq.waiter) then
            perform pgq._wake(claim.queue_id);
        end if;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_sets(pgq._claim, tid[], int8multirange[], int[], bigint, bigint) is
    'Takes the messages that a filter has found.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_singles.sql

-- Fast path: rows of one message each, all for their first delivery. Publishing one by one makes
-- them. One statement deletes up to n of them and writes the lease. Nothing changes, and nothing is
-- returned, if one of the rows is of another kind, or if there may be late rows before them.
-- Without this path a claim of 10 or 100 such rows costs half as much again.
create or replace function pgq._take_singles(
    queue_id int, low bigint, seen pg_snapshot, n int, journal boolean, now timestamptz,
    until timestamptz
) returns pgq._fast_lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lease pgq._fast_lease;
begin
    with head as materialized (
        select r.ctid as place, r.rank, r.attempt, r.size, r.expires_at, r.grouped, r.suspect,
               r.failures, r.ids
        from pgq.ready r
        where r.queue_id = _take_singles.queue_id and r.rank >= low
          and not exists (  -- found by xid: the ORDER BY leaves no other index
              select from pgq.ready k
              where k.queue_id = _take_singles.queue_id
                and k.xid >= pg_snapshot_xmin(seen) and k.rank + 0 < low
                order by k.xid offset 0)
        order by r.rank limit n for update skip locked
    ), alike as materialized (
        select array_agg(h.place) as places, count(*)::int as size,
               bool_or(h.grouped) as grouped, pgq._rank_id(min(h.rank)) as first,
               max(h.rank) - min(h.rank) + 1 as span
        from head h
        having bool_and(h.size = 1 and h.attempt = 0 and h.failures is null and not h.suspect
                        and (h.expires_at is null or h.expires_at > now))
           and bool_and(h.grouped) = bool_or(h.grouped)
           and pgq._rank_class(min(h.rank)) = pgq._rank_class(max(h.rank))
    ), gone as (
        delete from pgq.ready r where r.ctid = any ((select a.places from alike a)::tid[])
    )
    insert into pgq.lease as l (
        lease_id, claimed_at, until, queue_id, part, attempt, size, grouped, journal, holder,
        client, key, failures, ids)
    select pgq._row_token(now, _take_singles.until), now,
           _take_singles.until, _take_singles.queue_id, 0, 1, a.size, a.grouped,
           _take_singles.journal, nullif(current_setting('application_name'), ''),
           inet_client_addr(), null, null,
           case when a.span = a.size then int8multirange(int8range(a.first, a.first + a.size))
           else (select range_agg(h.ids) from head h) end
    from alike a
    returning l.lease_id, l.size, l.attempt, l.ids into v_lease;
    return v_lease;
end
$$;
comment on function pgq._take_singles(
    int, bigint, pg_snapshot, int, boolean, timestamptz, timestamptz) is
    'Takes rows of one message each from the head.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_some.sql

-- Takes up to n messages from the head, whatever its rows look like. Locks no more rows than are
-- needed: as many as hold n messages.
create or replace function pgq._take_some(claim pgq._claim, head_size int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_needed record;
    v_places tid[];
    v_rows record;
begin
    -- Rows are mostly no smaller than the first one; if they are, count as many as can be needed.
    for v_most in reverse 1 .. 0 loop
        select count(*) filter (where s.ahead < claim.n) as count, sum(s.size) as size
        into v_needed
        from (
            select p.size, sum(p.size) over (order by p.rank rows unbounded preceding) - p.size
                       as ahead
            from (
                select q.rank, q.size from pgq.ready q
                where q.queue_id = claim.queue_id and q.rank >= claim.low
                  and (q.expires_at is null or q.expires_at > claim.claimed_at)
                order by q.rank
                limit case v_most when 1 then 1 + (claim.n - 1) / head_size else claim.n end
            ) p
        ) s;
        exit when v_needed.size >= claim.n;
    end loop;
    v_places := array(
        select r.ctid from pgq.ready r
        where r.queue_id = claim.queue_id and r.rank >= claim.low
          and (r.expires_at is null or r.expires_at > claim.claimed_at)
        order by r.rank limit v_needed.count for update skip locked);
    v_rows := pgq._take_rows(claim, v_places);
    return v_rows.size;
end
$$;
comment on function pgq._take_some(pgq._claim, int) is
    'Takes messages from the head of a queue with rows of any kind.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_turns.sql

-- Takes up to n messages from the lanes whose turn it is: from a few of them, about as many from
-- each, no more than the limits of a lane leave. The next claim begins behind the last of these
-- lanes, so that each lane has its turn however much the others hold. If claims lock lanes, all
-- sessions go round them together (_turn); otherwise each session goes round by itself, because
-- nothing keeps two claims that begin at the same moment from the same lanes. A session keeps its
-- place in a setting; a forged value only changes which lane comes first.
create or replace function pgq._take_turns(
    queue pgq.queue, claim pgq._claim, document jsonb, limits pgq.queue_limit, low pgq._low
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_setting text := 'pgq.turn_' || queue.queue_id;
    v_common int;
    v_turn int;
    v_locked boolean := document is null
        and num_nonnulls(limits.lane_max_leased, limits.lane_step) > 0;
    v_filter pgq.filter;
    v_test pgq.filter;  -- the same; null: the lanes decide, no message has to be tested
    v_lanes pgq._lanes;
    v_low pgq._low;
    v_seen pg_snapshot := pg_current_snapshot();
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_heads pgq._head[];
    v_all pgq._head[];
    v_fast boolean := claim.n <= 1000;
    v_sizes int[] := '{}';
    v_took int;
    v_size int := 0;
    v_now timestamptz;
    v_rows record;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
begin
    if document is not null then
        v_filter := pgq._keep_filter(queue, document);
        if document::text ~ E'"\\$now"' then
            v_filter.filter_id := null;  -- a message that does not match now may match later
        end if;
        v_lanes := pgq._keep_lanes(queue, v_filter);
        if v_lanes.kept = '{}' then
            perform pgq._note_ruled_out(queue.queue_id, v_filter.filter_id, claim.claimed_at);
        end if;
        if (v_lanes.kept <@ v_lanes.sure) is not true then
            v_test := v_filter;
            v_low := pgq._cursor_get(v_filter.filter_id, queue.queue_id);
        end if;
    end if;
    if v_locked then
        v_common := pgq._turn(queue.queue_id);
    end if;
    v_turn := coalesce(
        v_common, substring(current_setting(v_setting, true) from '^[0-9]{1,9}$')::int);
    if v_turn is null then  -- the first claim of a session begins anywhere
        v_turn := (random() * (
            select max(l.lane_id) from pgq.lane l where l.queue_id = queue.queue_id))::int;
    end if;
    v_all := pgq._lane_heads(
        queue, claim, limits, v_lanes.kept, low.lease, v_turn, v_test, v_low);
    -- Not if another claim has moved on meanwhile: a slow claim must not set the round back.
    if v_locked and v_all <> '{}' and pgq._turn(queue.queue_id) is not distinct from v_common then
        perform pgq._turn_set(queue.queue_id, (v_all[cardinality(v_all)]).lane_id);
    end if;
    v_heads := pgq._lane_quotas(queue.queue_id, claim, limits, low.lease, v_all);
    if v_heads <> '{}' then
        for i in 1 .. cardinality(v_heads) loop
            v_fast := v_fast and v_test.path is null and (v_heads[i]).size >= (v_heads[i]).quota
                and not (v_heads[i]).suspect;
        end loop;
        v_now := pgq.now();  -- after the end of all leases that were counted as ended
        claim.until := claim.until + (v_now - claim.claimed_at);
        claim.claimed_at := v_now;
        if v_fast then
            claim.lease_id := pgq._lease_token(claim.until);
            v_sizes := pgq._take_firsts(claim, v_heads);
        else
            v_rows := pgq._lane_rows(claim, v_heads, v_test, v_test.path is null);
            if v_rows.size > 0 then
                claim.lease_id := pgq._lease_token(claim.until);
                claim.permits := pgq._first_ids(claim.permits, v_rows.size);
                claim.n := v_rows.size;
                v_sizes := v_rows.sizes;
                -- Less than that, if suspects are among the rows: they are taken alone.
                v_took := (pgq._take_rows(claim, v_rows.places, v_rows.sets)).size;
            end if;
        end if;
        for i in 1 .. cardinality(v_sizes) loop
            continue when v_sizes[i] < 1;
            v_size := v_size + v_sizes[i];
            if limits.lane_step is not null then
                perform pgq._spend(
                    queue.queue_id, (v_heads[i]).lane, (v_heads[i]).full_at, limits.lane_step,
                    v_sizes[i], claim.claimed_at);
            end if;
        end loop;
    end if;
    if v_size > 0 then
        v_turn := (v_heads[cardinality(v_heads)]).lane_id;
        perform set_config(v_setting, v_turn::text, false);
        v_taken.lease_id := claim.lease_id;
        v_taken.size := coalesce(v_took, v_size);
    elsif queue.unlaned_rows then
        return pgq._take_unlaned(claim, limits, low, v_filter);
    elsif v_all = '{}' and v_test.filter_id is not null
          and num_nonnulls(limits.lane_max_leased, limits.lane_step) = 0
          and pgq._cursor_is_due(v_low, 0, 0, claim.claimed_at)
    then
        -- All lanes were read: the next claim need not test these messages again.
        v_low.rank := greatest(
            v_low.rank, pgq._rank(0, false, pg_sequence_last_value('pgq.message_id') + 1));
        v_low.seen := v_seen;
        v_low.own := v_own;
        perform pgq._cursor_set(v_filter.filter_id, queue, v_low, claim.claimed_at);
    else
        v_taken.missed := array(select h.place from unnest(v_all) h where h.size > 1);
        v_taken.missed := nullif(v_taken.missed, '{}');
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_turns(pgq.queue, pgq._claim, jsonb, pgq.queue_limit, pgq._low) is
    'Takes messages from the lanes whose turn it is.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/take_unlaned.sql

-- Takes up to n messages that a queue got before it had lanes, until maintain() has sorted them.
-- Limits count them as one lane. With a filter, only messages that match.
create or replace function pgq._take_unlaned(
    claim pgq._claim, limits pgq.queue_limit, low pgq._low, filter pgq.filter
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lane constant bigint := pgq._lane_flow(null);
    v_found pgq._found;
    v_rows record;
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
begin
    if limits.lane_max_leased is not null then
        perform from pgq.flow f
        where f.queue_id = claim.queue_id and f.lane = v_lane and f.full_at = 'epoch'
        for update skip locked;
        if not found and not pgq._new_lane(claim.queue_id, v_lane) then
            return v_taken;
        end if;
        claim.n := least(claim.n, limits.lane_max_leased
                         - pgq._in_flight(claim.queue_id, v_lane, low.lease));
    end if;
    if claim.n < 1 then
        return v_taken;
    end if;
    claim.permits := pgq._first_ids(claim.permits, claim.n);
    if filter.path is null then
        v_found.places := array(
            select r.ctid from pgq.ready r
            where r.queue_id = claim.queue_id and r.lane_id is null
              and (r.expires_at is null or r.expires_at > claim.claimed_at)
            order by r.rank limit claim.n for update skip locked);
    else
        claim.low := pgq._rank_first();
        v_found := pgq._find_matches(
            claim, filter, row('{}', '{}', '{}', null, false)::pgq._lanes, null);
    end if;
    if v_found.places <> '{}' then
        claim.lease_id := pgq._lease_token(claim.until);
        v_rows := pgq._take_rows(claim, v_found.places, v_found.sets);
        v_taken.lease_id := claim.lease_id;
        v_taken.size := v_rows.size;
    end if;
    return v_taken;
end
$$;
comment on function pgq._take_unlaned(pgq._claim, pgq.queue_limit, pgq._low, pgq.filter) is
    'Takes messages that a queue got before it had lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/turn.sql

-- The round that all sessions make together over the lanes of a queue with limits. Its place is a
-- sequence, because others see a new value at once, and nobody waits for a transaction to end. Only
-- this file knows the sequence. With a round for each session, a tenant had 0.84 to 1.17 of its
-- fair share after 40 turns, and 0.97 to 1.07 with this one (benchmark, 60 turns: 0.95 to 1.09).
create or replace function pgq._turn(queue_id int) returns int
language sql volatile
return case when pg_sequence_last_value('pgq.turn') >> 32 = queue_id
       then (pg_sequence_last_value('pgq.turn') & 4294967295)::int end;
comment on function pgq._turn(int) is
    'The lane that had the last turn; null: another queue was claimed from since.';

create or replace function pgq._turn_set(queue_id int, lane_id int) returns bigint
language sql volatile
return setval('pgq.turn', (queue_id::bigint << 32) + lane_id);
comment on function pgq._turn_set(int, int) is 'Stores the lane that had the last turn.';
$pgq_script$;
    execute $pgq_script$
-- sql/50_claim/warn_of_testing.sql

-- At most one WARNING a minute in a session, for a filter that tests many messages without a match.
create or replace function pgq._warn_of_testing(queue pgq.queue, document jsonb, tested bigint)
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
              hint = format('select * from pgq.explain_filter(%L, filter) shows what to do. '
                  'Set pgq.warn_after_tests to 0 to turn this warning off.', queue.name);
end
$$;
comment on function pgq._warn_of_testing(pgq.queue, jsonb, bigint) is
    'Warns of a filter that tests many messages and finds nothing.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/backlog.sql

-- How many messages of a queue can be claimed now, exactly; a sum over sets, not over messages.
create or replace function pgq.backlog(
    queue text, caller pgq.caller default current_user
) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', backlog.queue);
begin
    return (select coalesce(sum(r.size), 0) from pgq.ready r where r.queue_id = v_queue.queue_id);
end
$$;
comment on function pgq.backlog(text, pgq.caller) is
    'The exact number of messages of a queue that are ready to be claimed. Claims nothing. Works '
    'on a standby.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/log_lock.sql

-- Prevents truncation of the live log until the transaction ends. Returns archived eras: those that
-- are still in a slot, and those after the given era.
create or replace function pgq.log_lock(
    after bigint default null, topic text default null, caller pgq.caller default current_user
) returns table (era bigint, path text, slot int, is_new boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', log_lock.topic);
    end if;
    -- Locks the partitions too. Later statements, here and in the transaction, get newer snapshots.
    lock table pgq.message in access share mode;
    return query
        select a.era, a.path, e.slot::int,
               a.low is not null and a.era > coalesce(log_lock.after, -1)
        from pgq.archive_era a
        left join pgq.era e on e.number = a.era and e.emptied_at is null
        where a.low is not null and a.era > coalesce(log_lock.after, -1) or e.slot is not null
        order by a.era;
end
$$;
comment on function pgq.log_lock(bigint, text, pgq.caller) is
    'Prevents the truncation of slots of the log until the transaction ends. Call it at the start '
    'of a READ COMMITTED transaction that reads what pgq.log_parts returned. Returns the eras '
    'with a confirmed copy that are still in a slot (do not read that slot), and the eras with a '
    'number greater than the argument after (is_new): messages that were in the live log before '
    'are now in these copies.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/log_parts.sql

-- Locates all messages up to an id: in archived copies of eras, or in the live log.
create or replace function pgq.log_parts(
    high bigint, topic text default null, caller pgq.caller default current_user
) returns table (era bigint, path text, started_at timestamptz, messages bigint, low bigint,
                 up_to bigint, ids int8multirange)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_archived bigint := (select max(e.high) from pgq.archive_era e);
    v_live int8multirange;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', log_parts.topic);
    end if;
    -- Small ids in the live log: messages that were copied forward, committed late, or replayed.
    select coalesce(range_agg(int8range(m.id, m.id + 1)), '{}') into v_live
    from pgq.message m
    where m.id <= v_archived
      and m.era <> all (array(select e.slot from pgq.era e
                              where e.archived_at is not null and e.emptied_at is null));
    return query
        select e.era, e.path, e.started_at, e.messages, e.low, least(e.high, log_parts.high),
               -- A message that is in several places is read from the last one.
               int8multirange(int8range(e.low, e.high + 1)) * (v_live + coalesce((
                   select range_agg(o.old) from pgq.archive_era o
                   where o.era > e.era and o.old <> '{}' and o.old && int8range(e.low, e.high + 1)
               ), '{}'))
        from pgq.archive_era e
        where e.low is not null and e.low <= log_parts.high
        union all
        -- Eras that were truncated without a copy, after the archive had begun.
        select n, null, null, null, null, null, null
        from generate_series(
            (select min(e.era) from pgq.archive_era e),
            (select min(e.number) from pgq.era e
             where e.emptied_at is null and e.archived_at is null) - 1) n
        where not exists (select from pgq.archive_era e where e.era = n)
        order by 1;
    return query
        select null::bigint, null::text, null::timestamptz, null::bigint,
               coalesce(v_archived, 0) + 1, log_parts.high, v_live;
end
$$;
comment on function pgq.log_parts(bigint, text, pgq.caller) is
    'The locations of all messages with ids up to high, in one snapshot. A row for the copy of '
    'each era: read all messages of the copy except those in ids, which are also in a later '
    'location. The last row, without an era, is the live log: read the messages from low on, and '
    'the messages with smaller ids that are in ids. A row with an era and no low is an era that '
    'was truncated before it was copied. If high comes from pgq.log_range and the publishing '
    'transactions have ended, this returns every message once.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/log_range.sql

-- The range of ids in the log, and the open transactions that may still add smaller ids.
create or replace function pgq.log_range(
    topic text default null, slot int default null, caller pgq.caller default current_user
) returns table (low bigint, high bigint, publishers text[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', log_range.topic);
    end if;
    select min(m.id), max(m.id) into low, high from pgq.message m
    where log_range.slot is null or m.era = log_range.slot;
    -- Read the locks after the ids: nextval() locks the sequence first, until the transaction ends.
    publishers := array(
        select distinct l.virtualtransaction from pg_locks l
        where l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.relation = 'pgq.message_id'::regclass and l.pid <> pg_backend_pid());
    return next;
end
$$;
comment on function pgq.log_range(text, int, pgq.caller) is
    'The smallest and the largest id in the log, or in one slot of it, and the open transactions '
    '(as pg_locks names them) that have published. When these have ended, the log up to the '
    'largest id no longer changes. Works on a standby, where it cannot list the transactions.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/messages.sql

-- Lists the messages of a queue in one state: scheduled and leased ones by the end of that state,
-- dead ones newest first. Reads sets one by one until n messages match.
create or replace function pgq.messages(
    queue text, state text default 'ready', filter jsonb default null, n int default 50,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', messages.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_now timestamptz := pgq.now();
    v_sets refcursor;
    v_set record;
    v_left int := n;
    v_found int;
begin
    if n is null or n not between 1 and 10000 then
        raise exception 'n must be between 1 and 10000, not %', coalesce(n::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'n is the most messages to list.';
    end if;
    case state
        when 'ready' then
            return query
                select null::bigint, m.id, m.topic, m.priority, null::int, m.headers, m.payload,
                       m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                       m.published_at, m.expires_at, null::timestamptz
                from pgq.peek(messages.queue, filter, n, caller) m;
            return;
        when 'dead' then
            return query
                select null::bigint, d.message_id, d.topic, d.priority, d.attempts, d.headers,
                       d.payload, d.sender, d.recipient, d.reply_to, d.correlation_id, d.group_key,
                       d.published_at, d.expires_at, d.failed_at
                from pgq.letter d
                where d.queue_id = v_queue.queue_id
                  and pgq._test_filter(
                      v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority,
                      d.sender, d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts,
                      d.published_at, d.expires_at, d.message_id, v_now)
                order by d.failed_at desc, d.dead_letter_id desc limit n;
            return;
        when 'scheduled' then
            open v_sets for
                select s.ids, s.attempt, nullif(s.due_at, 'infinity') as until,
                       null::bigint as lease_id
                from pgq.scheduled s where s.queue_id = v_queue.queue_id order by s.due_at;
        when 'leased' then
            open v_sets for
                select l.ids, l.attempt, nullif(l.until, 'infinity') as until, l.lease_id
                from pgq.lease l where l.queue_id = v_queue.queue_id
                order by l.until, l.lease_id, l.part;
        when 'waiting' then
            open v_sets for
                select int8multirange(int8range(g.message_id, g.message_id + 1)) as ids,
                       0 as attempt, nullif(g.due_at, '-infinity') as until,
                       null::bigint as lease_id
                from pgq.group_line g where g.queue_id = v_queue.queue_id
                order by g.group_key, g.message_id;
        else
            raise exception 'a message cannot be "%"', state
                using errcode = 'invalid_parameter_value',
                      hint = 'Name ready, scheduled, leased, waiting or dead.';
    end case;
    while v_left > 0 loop
        fetch v_sets into v_set;
        exit when not found;
        return query
            select v_set.lease_id, m.id, m.topic, m.priority, v_set.attempt, m.headers, m.payload,
                   m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                   m.published_at, m.expires_at, v_set.until
            from unnest(v_set.ids) r
            cross join lateral (
                -- OFFSET 0, as in pgq.peek: else the planner may scan the whole log in id order.
                select e.* from pgq.message e where e.id >= lower(r) and e.id < upper(r) offset 0
            ) m
            where pgq._matches(v_filter.path, v_filter.scope, m::pgq.message, v_set.attempt, v_now)
            order by m.id limit v_left;
        get diagnostics v_found = row_count;
        v_left := v_left - v_found;
    end loop;
    close v_sets;
end
$$;
comment on function pgq.messages(text, text, jsonb, int, pgq.caller) is
    'Lists at most n messages of a queue that match the filter and are in a state: ready (in '
    'delivery order), scheduled (delayed, or waiting for a retry), leased, waiting (for their '
    'turn in an ordering group) or dead (newest first). lease_until is the due time of a '
    'scheduled message, the expiry of a lease, or the time of a dead letter. attempt is the '
    'number of deliveries so far, null for ready messages. Claims and locks nothing. Works on a '
    'standby.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/peek.sql

-- The next n messages that a claim with this filter would get; takes nothing.
create or replace function pgq.peek(
    queue text, filter jsonb default null, n int default 10, caller pgq.caller default current_user
) returns setof pgq.message
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', peek.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), v_queue.lane_keys);
    v_lanes pgq._lanes := pgq._keep_lanes(v_queue, v_filter);
    v_now timestamptz := pgq.now();
    v_low bigint := pgq._rank_first();
    v_row record;
    v_rows int;
    v_left int := n;
    v_found int;
begin
    if n is null or n not between 1 and 1000000 then
        raise exception 'n must be between 1 and 1000000, not %', coalesce(n::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'n is the most messages to return.';
    end if;
    while v_left > 0 loop
        v_rows := 0;
        for v_row in
            select p.* from pgq._peek_rows(v_queue.queue_id, v_lanes, v_low,
                                           4 * v_left + 1000) p
        loop
            v_rows := v_rows + 1;
            v_low := v_row.rank + 1;
            continue when v_row.expires_at <= v_now;
            return query
                select m.* from unnest(v_row.ids) r
                cross join lateral (
                    -- OFFSET 0: else the planner may join by a scan of the whole log in id order.
                    select e.* from pgq.message e
                    where e.id >= lower(r) and e.id < upper(r) offset 0
                ) m
                where pgq._matches(v_filter.path, v_filter.scope, m::pgq.message,
                                   v_row.attempt + 1, v_now)
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
    'Returns the next n ready messages of a queue that match the filter, in delivery order. '
    'Claims and locks nothing. Works on a standby.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/peek_slice.sql

-- The ready messages of a queue that match the filter and belong to a slice; takes nothing.
create or replace function pgq.peek_slice(
    queue text, filter jsonb default null, slice int default 0, "of" int default 1,
    caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', peek_slice.queue);
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
          and pgq._matches(v_filter.path, v_filter.scope, m, d.attempt + 1, v_now);
end
$$;
comment on function pgq.peek_slice(text, jsonb, int, int, pgq.caller) is
    'Returns the ready messages of a queue that match the filter, or one slice of them, in no '
    'particular order, for parallel readers. The slices 0 to of - 1 together are all of them. '
    'attempt is the number of deliveries so far. Claims nothing. Works on a standby.';
$pgq_script$;
    execute $pgq_script$
-- sql/52_peek/read_log.sql

-- The messages of the log with ids from low (inclusive) to high (exclusive), delivered or not.
create or replace function pgq.read_log(
    low bigint, high bigint, topic text default null, filter jsonb default null,
    slot int default null, skip int[] default null, caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_now timestamptz := pgq.now();
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', read_log.topic);
        -- The queue must receive its whole topic: its consumers may not read messages that a filter
        -- excludes.
        if not exists (select from pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
                       where q.name = read_log.topic and b.pattern = q.name and b.path is null)
        then
            raise exception 'permission denied for the log of topic "%"', read_log.topic
                using errcode = 'insufficient_privilege',
                      hint = 'The queue of that name does not receive all messages of the topic.';
        end if;
    end if;
    return query
        select null::bigint, m.id, m.topic, m.priority, 0, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, null::timestamptz
        from pgq.message m
        where m.id >= low and m.id < high
          and (slot is null or m.era = slot) and (skip is null or m.era <> all (skip))
          and (read_log.topic is null or m.topic = read_log.topic)
          and (filter is null or pgq._matches(v_filter.path, v_filter.scope, m, 1, v_now));
end
$$;
comment on function pgq.read_log(bigint, bigint, text, jsonb, int, int[], pgq.caller) is
    'The messages of the log with ids from low (inclusive) to high (exclusive), delivered or not, '
    'in no particular order. Optional conditions: topic, filter, one slot, slots to skip. Works '
    'on a standby. Roles other than the owner may read the topic of a queue that they may consume, '
    'if the queue receives all of that topic.';
$pgq_script$;
    execute $pgq_script$
-- sql/53_wait/channel.sql

-- The NOTIFY channel of a queue.
create or replace function pgq.channel(queue text, caller pgq.caller default current_user)
returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', channel.queue);
begin
    return v_queue.channel;
end
$$;
comment on function pgq.channel(text, pgq.caller) is
    'The channel on which consumers LISTEN for messages of the queue, an identifier such as '
    'pgq_0d2c... Notifications have no payload. The name is random, so that only consumers of the '
    'queue know it. It stays the same until the queue is dropped.';
$pgq_script$;
    execute $pgq_script$
-- sql/53_wait/next_slot.sql

-- When a rate limit may let the next message through: the time of the next token. Null: unknown. A
-- consumer at the max_leased limit is woken by an ack, or by the end of a lease.
create or replace function pgq._next_slot(queue pgq.queue, waiter text, now timestamptz)
returns timestamptz
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit pgq.queue_limit;
    v_burst int;
    v_count int;
    v_tokens timestamptz[];
begin
    select l.* into v_limit from pgq.queue_limit l where l.queue_id = queue.queue_id;
    v_count := pgq._shards(v_limit);
    if not exists (select from pgq.ready r where r.queue_id = queue.queue_id)
       or v_limit.max_leased <= pgq._in_flight(queue.queue_id, null, null)
    then
        return null;
    end if;
    if num_nonnulls(v_limit.max_leased, v_limit.step) > 0 and (
        select count(*) from (
            select from pgq.flow f
            where f.queue_id = queue.queue_id
              and f.lane between pgq._shard_lane(0) and pgq._shard_lane(15)
              and f.full_at = 'epoch'
            for update skip locked) s) < 16
    then
        return now + interval '100 ms';  -- a concurrent claim has locked a shard
    end if;
    if v_limit.step is not null then
        v_burst := pgq._burst(v_limit.rate, v_limit.burst);
        v_tokens := array(
            select pgq._tokens_at(b.full_at, v_limit.step * v_count, b.burst, n)
            from (select pgq._full_at(queue.queue_id, pgq._shard_lane(s)) as full_at,
                         pgq._shard_burst(v_burst, v_count, s) as burst
                  from generate_series(0, v_count - 1) s) b
            cross join lateral generate_series(1, b.burst) n
            order by 1);
        if v_tokens[1] > now then
            -- The first listener gets the first token, the second one the second.
            return v_tokens[least(cardinality(v_tokens), (
                select 1 + count(*) from pgq.waiter w
                where w.queue_id = queue.queue_id and w.until > now
                  and w.waiter < _next_slot.waiter)::int)];
        end if;
    end if;
    if v_limit.lane_step is null then
        return null;
    end if;
    v_burst := pgq._burst(v_limit.lane_rate, v_limit.lane_burst);
    return (
        select min(pgq._tokens_at(f.full_at, v_limit.lane_step, v_burst, 1))
        from pgq.lane l
        join pgq.flow f on f.queue_id = l.queue_id and f.lane = pgq._lane_flow(l.label)
        where l.queue_id = queue.queue_id and f.full_at > now
          and pgq._tokens(f.full_at, v_limit.lane_step, v_burst, now) < 1
          and exists (select from pgq.ready r where r.lane_id = l.lane_id));
end
$$;
comment on function pgq._next_slot(pgq.queue, text, timestamptz) is
    'When a limit may let the next message through.';
$pgq_script$;
    execute $pgq_script$
-- sql/53_wait/seen.sql

-- Whether this handler has seen the message; if not, records that it has now.
create or replace function pgq.seen(
    handler text, message_id bigint, size int default 100, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    -- Handlers belong to a role, so that no role can mark the work of another as done.
    v_role text := case when pgq._is_owner(caller) then '' else caller::text end;
begin
    if handler is null or handler = '' or message_id is null or size is null or size < 1 then
        raise exception 'seen needs a handler, a message id and a size of at least 1'
            using errcode = 'invalid_parameter_value',
                  hint = 'The handler is a name of yours, such as "billing:charge".';
    end if;
    -- Waits until a concurrent transaction that handles the same message has ended.
    insert into pgq.handled (role, handler, message_id, handled_at)
    values (v_role, seen.handler, seen.message_id, pgq.now())
    on conflict on constraint handled_pkey do nothing;
    if not found then
        return true;
    end if;
    delete from pgq.handled h
    where h.ctid = any (array(
        -- Locks only the rows to delete: OFFSET in the query with FOR UPDATE would lock all rows.
        select o.ctid from pgq.handled o
        where o.role = v_role and o.handler = seen.handler and o.handled_id <= (
            select l.handled_id from pgq.handled l
            where l.role = v_role and l.handler = seen.handler
            order by l.handled_id desc offset size limit 1)
        for update skip locked));
    return false;
end
$$;
comment on function pgq.seen(text, bigint, int, pgq.caller) is
    'Consumer-side deduplication. Returns true if the message is among the last size messages '
    'that the handler has seen. Otherwise it records the message and returns false. Call it in '
    'the transaction of the work: a rollback also undoes the record. Each role with rights has '
    'its own handlers.';
$pgq_script$;
    execute $pgq_script$
-- sql/53_wait/wait_begin.sql

-- Registers a consumer that found nothing, so that publishing wakes it. Returns how long it may
-- sleep; zero means to claim again first.
--
-- The race: a publisher searches for listeners before this one is registered, and commits after the
-- consumer has searched for messages. So the registration is committed first (first call). Then all
-- transactions that may have missed it have to end (second call). Then the consumer claims once
-- more. After that, every message is notified while the registration lasts.
create or replace function pgq.wait_begin(
    queue text, waiter text, timeout interval default '30 s',
    caller pgq.caller default current_user
) returns interval
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_begin.queue);
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
        -- Delete expired listeners here too, in case nobody calls maintain().
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
        -- An older transaction may stay open for hours: poll less often the longer it takes. Newer
        -- transactions notify.
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
    -- At most until a message is due or a lease ends; 100 ms if a group waits for a publisher: it
    -- may end without a notification.
    select least(
        (select v_now + interval '100 ms' from pgq.group_stall g
         where g.queue_id = v_queue.queue_id limit 1),
        (select min(s.due_at) from pgq.scheduled s where s.queue_id = v_queue.queue_id),
        pgq._next_schedule(v_queue.queue_id),
        case when v_queue.limited then pgq._next_slot(v_queue, waiter, v_now) end,
        -- Lease ids are in the order of expiry: the earliest end is among the first ones.
        (select min(l.until)
         from (select k.queue_id, k.until from pgq.lease k order by k.lease_id limit 1000) l
         where l.queue_id = v_queue.queue_id and l.until < 'infinity'))
    into v_due;
    -- Do not spin: a due message that was not claimed is locked by another session.
    return least(timeout, greatest(coalesce(v_due - v_now, timeout), interval '20 ms'));
end
$$;
comment on function pgq.wait_begin(text, text, interval, pgq.caller) is
    'Registers a consumer that waits. First LISTEN on the channel of pgq.channel(queue). Then '
    'call this function in its own transaction, after a claim that found nothing. Returns how '
    'long to sleep unless notified, at most the timeout; zero means to claim again immediately. '
    'waiter is a name that no other consumer uses.';
$pgq_script$;
    execute $pgq_script$
-- sql/53_wait/wait_end.sql

-- Removes the registration of a consumer that is awake: publishing need not notify it.
create or replace function pgq.wait_end(
    queue text, waiter text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', wait_end.queue);
begin
    delete from pgq.waiter w
    where w.queue_id = v_queue.queue_id and w.waiter = wait_end.waiter;
    return found;
end
$$;
comment on function pgq.wait_end(text, text, pgq.caller) is
    'Removes the registration of a waiting consumer. Call it when the consumer has found '
    'messages, so that a busy queue sends no notifications. Returns false if the consumer was not '
    'registered.';
$pgq_script$;
    execute $pgq_script$
-- sql/53_wait/wait_result.sql

-- Registers a listener for the end of a message: the call that ends it notifies the channel
-- pgq_result with the id.
create or replace function pgq.wait_result(
    message_id bigint, waiter text, timeout interval default '1 min',
    caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) and not exists (
        select from pgq.queue_right r where pg_has_role(wait_result.caller, r.role, 'usage'))
    then
        raise exception 'permission denied to wait for messages'
            using errcode = 'insufficient_privilege',
                  hint = 'The owner of a queue can grant a right: pgq.grant_queue.';
    end if;
    if num_nonnulls(message_id, waiter, timeout) < 3
       or timeout not between '0' and interval '1 day'
    then
        raise exception 'waiting needs a message, a name, and a timeout of at most a day'
            using errcode = 'invalid_parameter_value',
                  hint = 'Call pgq.result again and again to wait for longer.';
    end if;
    insert into pgq.result_waiter as w (message_id, waiter, until)
    values (wait_result.message_id, wait_result.waiter, pgq.now() + wait_result.timeout)
    on conflict on constraint result_waiter_pkey do update
    set until = greatest(w.until, excluded.until);
end
$$;
comment on function pgq.wait_result(bigint, text, interval, pgq.caller) is
    'Registers a listener for the end of a message. The call that finishes, buries or cancels the '
    'message notifies the channel pgq_result with its id. Read '
    'pgq.result after this call, and again from time to time: a transaction that was already '
    'running may not have seen the listener.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/00_batch_key.sql

-- The key of the named claim that is a batch of a stream.
create or replace function pgq._batch_key(consumer text, batch bigint) returns text
language sql immutable parallel safe
return 'stream ' || consumer || ' ' || batch;
comment on function pgq._batch_key(text, bigint) is
    'The key of the named claim that is a batch of a stream.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/10_stream_begin.sql

-- Acquires a consumer's name, or renews it: the owner calls this periodically while it runs.
create or replace function pgq.stream_begin(
    queue text, consumer text, owner text, timeout interval default '30 s',
    lease interval default null, caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_begin.queue);
    v_now timestamptz := pgq.now();
    v_stream pgq.stream;
begin
    if consumer is null or consumer = '' or length(consumer) > 200 or owner is null then
        raise exception 'a stream needs a consumer of at most 200 characters, and an owner'
            using errcode = 'invalid_parameter_value',
                  hint = 'The consumer is a name that stays; the owner identifies the process.';
    end if;
    if timeout is null or timeout <= interval '0' or stream_begin.lease <= interval '0' then
        raise exception 'timeout and lease must be longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'An owner that does not renew it within the timeout loses the name.';
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
        raise exception 'consumer "%" of queue "%" is in use', consumer, stream_begin.queue
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
    'Acquires the name of a consumer that works in numbered batches. Returns the last batch that '
    'it has finished (0: none). The owner repeats the call before the timeout ends; with a lease '
    'duration, this also extends the current batch. 55006 if the name has another owner.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/15_stream_bind.sql

-- Binds a consumer's name to the query whose checkpoint counts its batches.
create or replace function pgq.stream_bind(
    queue text, consumer text, owner text, query text default null, batch bigint default null,
    anew boolean default false, caller pgq.caller default current_user
) returns table (finished bigint, stream_id uuid, bound_to text, committed bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_bind.queue);
    v_stream pgq.stream;
begin
    select s.* into v_stream from pgq.stream s
    where s.queue_id = v_queue.queue_id and s.consumer = stream_bind.consumer for update;
    if v_stream.owner is distinct from stream_bind.owner or v_stream.owner is null then
        raise exception 'consumer "%" of queue "%" has another owner now',
            stream_bind.consumer, stream_bind.queue
            using errcode = 'object_in_use',
                  hint = 'The owner did not renew it within the timeout, and another one took it.';
    end if;
    -- A batch that pgq.commit_batch has finished is not repeated, whatever the checkpoint is.
    if not anew and v_stream.committed is distinct from v_stream.batch
       and (stream_bind.batch is null and v_stream.batch > 0 and stream_bind.query is not null
            or stream_bind.batch is not null and v_stream.query <> stream_bind.query)
    then
        raise exception 'consumer "%" of queue "%" belongs to the checkpoint of another query',
            stream_bind.consumer, stream_bind.queue
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('It has finished batch %s, and %s.', v_stream.batch,
                                  coalesce('this checkpoint is at batch ' || stream_bind.batch,
                                           'this checkpoint is new')),
                  hint = 'Bring the old checkpoint back, or use a new consumer. newCheckpoint=true '
                      'continues after that batch: then give files a new directory too, because '
                      'Spark writes no batch number twice into the same.';
    end if;
    -- Spark reports a new checkpoint again while its first batch is not done: keep the first query.
    if stream_bind.query is not null
       and not (stream_bind.batch is null and v_stream.batch = 0 and v_stream.query is not null)
    then
        v_stream.query := stream_bind.query;
        update pgq.stream s set query = v_stream.query
        where s.queue_id = v_queue.queue_id and s.consumer = stream_bind.consumer;
    end if;
    return query select v_stream.batch, v_stream.stream_id, v_stream.query,
        v_stream.committed;
end
$$;
comment on function pgq.stream_bind(text, text, text, text, bigint, boolean, pgq.caller) is
    'Binds the name of a stream''s consumer to a query, whose checkpoint is at the batch (null: '
    'new). Returns the last finished batch, an id that differs from that of other consumers of the '
    'same name, the bound query (the previous one while no batch is finished), and the last batch '
    'that pgq.commit_batch has finished. 55000 if the name is bound to another query, or if the '
    'checkpoint is new and batches are finished, unless anew is true or pgq.commit_batch finished '
    'the last batch. 55006 if the name has another owner.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/20_stream_finish.sql

-- Acknowledges the batches of a stream up to this one.
create or replace function pgq.stream_finish(
    queue text, consumer text, owner text, batch bigint,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_finish.queue);
    v_stream pgq.stream;
    v_lease_id bigint;
    v_count int := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'batches of a stream are finished under READ COMMITTED only'
            using errcode = 'serialization_failure',
                  hint = 'An old snapshot may not show a batch that was claimed meanwhile.';
    end if;
    select s.* into v_stream from pgq.stream s
    where s.queue_id = v_queue.queue_id and s.consumer = stream_finish.consumer for update;
    if v_stream.owner is distinct from stream_finish.owner or v_stream.owner is null then
        raise exception 'consumer "%" of queue "%" has another owner now',
            consumer, stream_finish.queue
            using errcode = 'object_in_use',
                  hint = 'The owner did not renew it within the timeout, and another one took it.';
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
    'Acknowledges the remaining messages of a stream''s batches up to and including this one. '
    'Returns how many; 0 if the batches were finished before. 55006 if the name has another '
    'owner.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/30_stream_claim.sql

-- Finishes the earlier batches and claims this one. A repeated call returns the same messages until
-- the batch is finished.
create or replace function pgq.stream_claim(
    queue text, consumer text, owner text, batch bigint, filter jsonb default null,
    n int default 1000, lease interval default null,
    runs boolean default false, caller pgq.caller default current_user
) returns table (lease_id bigint, size bigint)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', stream_claim.queue);
    end if;
    perform pgq.stream_finish(stream_claim.queue, stream_claim.consumer, stream_claim.owner,
                              stream_claim.batch - 1);
    if stream_claim.batch is null or exists (
        select from pgq.stream s join pgq.queue q on q.queue_id = s.queue_id
        where q.name = stream_claim.queue and s.consumer = stream_claim.consumer
          and s.batch >= stream_claim.batch)
    then
        raise exception 'batch % of consumer "%" is finished', stream_claim.batch,
            stream_claim.consumer
            using errcode = 'QU003',
                  hint = 'The checkpoint is older than what the consumer has acknowledged: with '
                      'failOnDataLoss=false Spark continues after that.';
    end if;
    perform pgq._flush();
    return query
        select h.lease_id, h.size
        from pgq.hold(stream_claim.queue,
                      pgq._batch_key(stream_claim.consumer, stream_claim.batch),
                      stream_claim.filter, stream_claim.n, stream_claim.lease,
                      stream_claim.runs) h;
end
$$;
comment on function pgq.stream_claim(
    text, text, text, bigint, jsonb, int, interval, boolean, pgq.caller) is
    'Finishes the earlier batches of a stream, claims this one, and returns its lease id and '
    'size; no row if there is nothing to claim. A repeated call returns the same messages until '
    'the batch is finished. Without a lease duration the lease never expires. With runs, a batch '
    'also has the messages after the head of an ordering group, if they match and have the same '
    'priority. Process them in the order of their ids. If one fails, the messages after it return '
    'to the queue. QU003 if the batch is finished, 55006 if the name has another owner.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/40_stream_batch.sql

-- The lease of a batch that was claimed.
create or replace function pgq.stream_batch(
    queue text, consumer text, batch bigint, caller pgq.caller default current_user)
returns table (lease_id bigint, size bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_batch.queue);
begin
    return query
        select l.lease_id, sum(l.size) from pgq.lease l
        where l.queue_id = v_queue.queue_id
          and l.key = pgq._batch_key(stream_batch.consumer, stream_batch.batch)
        group by l.lease_id;
end
$$;
comment on function pgq.stream_batch(text, text, bigint, pgq.caller) is
    'The lease id and size of a batch of a stream that is claimed and not finished; else no row.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/50_stream_end.sql

-- Releases a consumer's name; its batches stay claimed for the next owner of the name.
create or replace function pgq.stream_end(
    queue text, consumer text, owner text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_end.queue);
begin
    update pgq.stream s set owner = null
    where s.queue_id = v_queue.queue_id and s.consumer = stream_end.consumer
      and s.owner = stream_end.owner;
    return found;
end
$$;
comment on function pgq.stream_end(text, text, text, pgq.caller) is
    'Releases the name of a stream''s consumer. An unfinished batch stays claimed for the next '
    'owner of the name. Returns false if the name had another owner.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/60_relay_report.sql

-- Records the state of a relay's destination; without a destination, deletes the relay's record.
create or replace function pgq.relay_report(
    queue text, relay text, destination text default null, circuit text default 'closed',
    error text default null, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', relay_report.queue);
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
    'Records what a relay reports of its destination (named without its password): whether the '
    'circuit breaker is closed, open or half-open, and the last error. pgq.relays and '
    'pgq.queue_stats show it. Without a destination the record of the relay is deleted.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/70_stream_read.sql

-- Records which execution of an engine reads a batch, so that this execution can commit it.
create or replace function pgq.stream_read(
    queue text, consumer text, batch bigint, reader text, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_read.queue);
begin
    if reader is null or reader = '' or length(reader) > 200
       or num_nonnulls(consumer, batch) < 2
    then
        raise exception 'a reader needs a name of at most 200 characters, a consumer and a batch'
            using errcode = 'invalid_parameter_value',
                  hint = 'The name identifies this execution of the batch.';
    end if;
    -- The first task of an execution writes the row; its other tasks write nothing.
    insert into pgq.lineage as l (reader, queue_id, consumer, batch, size, read_at)
    values (stream_read.reader, v_queue.queue_id, stream_read.consumer, stream_read.batch,
            coalesce((select sum(e.size) from pgq.lease e
                      where e.queue_id = v_queue.queue_id
                        and e.key = pgq._batch_key(stream_read.consumer, stream_read.batch)), 0),
            pgq.now())
    on conflict on constraint lineage_pkey do update
    set batch = excluded.batch, size = excluded.size
    where excluded.batch > l.batch;
    if found then
        delete from pgq.lineage l
        where l.queue_id = v_queue.queue_id and l.consumer = stream_read.consumer
          and l.batch < stream_read.batch - pgq._limit('lineage');
        perform pgq._flush();
    end if;
end
$$;
comment on function pgq.stream_read(text, text, bigint, text, pgq.caller) is
    'Records that an execution of an engine reads a batch of a stream. Each task calls it before '
    'it reads a message. pgq.commit_batch finishes the batches that its reader has recorded.';
$pgq_script$;
    execute $pgq_script$
-- sql/55_stream/80_commit_batch.sql

-- Finishes, in the caller's transaction, the batches that an execution of an engine has read; false
-- if they were finished before.
create or replace function pgq.commit_batch(
    reader text default null, wrote jsonb default null, writer text default null,
    epoch bigint default null, query text default null, anew boolean default false,
    caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_batch record;
    v_lease record;
    v_is_known boolean := false;
    v_is_new boolean := false;
begin
    for v_batch in
        select l.*, s.batch as finished, q.name as queue
        from pgq.lineage l
        join pgq.stream s on s.queue_id = l.queue_id and s.consumer = l.consumer
        join pgq.queue q on q.queue_id = l.queue_id
        where l.reader = commit_batch.reader
        order by l.queue_id, l.consumer
        for update of s
    loop
        if not pgq._is_owner(caller) then
            perform pgq._require(caller, 'consume', v_batch.queue);
        end if;
        v_is_known := true;
        continue when v_batch.batch <= v_batch.finished;
        select l.lease_id, sum(l.size) as size into v_lease from pgq.lease l
        where l.queue_id = v_batch.queue_id
          and l.key = pgq._batch_key(v_batch.consumer, v_batch.batch)
        group by l.lease_id;
        if v_lease.size is distinct from v_batch.size then
            raise exception 'batch % of consumer "%" has lost % of % messages', v_batch.batch,
                v_batch.consumer, v_batch.size - coalesce(v_lease.size, 0), v_batch.size
                using errcode = 'QU003',
                      detail = 'Its lease was broken, has expired, or messages were given back '
                          'since they were read.',
                      hint = 'Read the batch again: nothing of it was committed.';
        end if;
        perform pgq.ack(v_lease.lease_id);
        update pgq.stream s set batch = v_batch.batch, committed = v_batch.batch
        where s.queue_id = v_batch.queue_id and s.consumer = v_batch.consumer;
        update pgq.lineage l set committed_at = pgq.now(), wrote = commit_batch.wrote
        where l.reader = v_batch.reader and l.queue_id = v_batch.queue_id
          and l.consumer = v_batch.consumer;
        v_is_new := true;
        perform pgq._flush();
    end loop;
    if v_is_known then
        return v_is_new;
    end if;
    if writer is null or epoch is null then
        raise exception 'nothing was read from a queue to be committed'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'A batch of a stream out of a queue is committed with it. Anything else '
                      'needs a writer and an epoch, to be written once.';
    end if;
    return pgq._begin_epoch(writer, epoch, query, anew, caller);
end
$$;
comment on function pgq.commit_batch(
    text, jsonb, text, bigint, text, boolean, pgq.caller) is
    'Finishes the batches that a reader has recorded with pgq.stream_read: it acknowledges their '
    'messages in the caller''s transaction. Write the results in the same transaction, so that '
    'both happen or neither. Returns false if the batches were finished before; then write '
    'nothing. If the reader has read no queue, it records an epoch of a writer instead, as '
    'pgq.publish_staged does. QU003 if a batch has lost messages since it was read.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/cancel.sql

-- Ends waiting messages for good: the common part of cancel and purge.
create or replace function pgq._cancel(queue pgq.queue, selection pgq._selection, verb text)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set pgq._withdrawn;
    v_sets int8multirange[] := '{}';
    v_all int8multirange;
    v_heads int8multirange := '{}';
    v_count bigint := 0::bigint;
begin
    for v_set in select * from pgq._withdraw(selection) loop
        perform pgq._record(queue.queue_id, verb, v_set.attempt, v_set.ids, null);
        perform pgq._wake_results(v_set.ids);
        v_sets := v_sets || v_set.ids;
        if v_set.grouped then
            v_heads := v_heads + v_set.ids;
        end if;
        v_count := v_count + v_set.size;
    end loop;
    -- Free their dedup keys, but for those that a publisher has locked. In one statement, because
    -- it reads all keys of the queue.
    if v_count > 0 then
        select range_agg(s) into v_all from unnest(v_sets) s;
        delete from pgq.dedup d
        where d.ctid = any (array(
            select k.ctid from pgq.dedup k
            where k.queue_id = queue.queue_id and v_all @> k.message_id
            for update skip locked));
    end if;
    -- These include messages behind the head of a group, which do not change the group.
    if v_heads <> '{}' then
        perform pgq._advance_groups(queue, v_heads, selection.now);
    end if;
    perform pgq._say_leased(selection, verb);
    return v_count;
end
$$;
comment on function pgq._cancel(pgq.queue, pgq._selection, text) is
    'Ends waiting messages for good.';

-- Ends selected waiting messages of a queue.
create or replace function pgq.cancel(
    topic text,
    ids bigint[] default null,
    filter jsonb default null,
    dedup_key text default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', cancel.topic);
    v_selection pgq._selection := pgq._select_messages(v_queue, ids, filter, dedup_key);
begin
    if num_nonnulls(ids, filter, dedup_key) = 0 then
        raise exception 'cancel needs ids, a filter or a dedup key'
            using errcode = 'invalid_parameter_value',
                  hint = 'To cancel everything that waits use pgq.purge(topic).';
    end if;
    if dry_run then
        perform pgq._say_leased(v_selection, 'cancel');
        return pgq._count_selected(v_selection, '{ready,scheduled,line}');
    end if;
    return pgq._cancel(v_queue, v_selection, 'cancel');
end
$$;
comment on function pgq.cancel(text, bigint[], jsonb, text, boolean, pgq.caller) is
    'Ends waiting messages of a queue: ready, scheduled, or waiting for their turn in an ordering '
    'group. The group continues without them. Selects by ids, filter and dedup key; a message '
    'must satisfy all that are given. Leased messages stay; a notice says how many. Returns how '
    'many messages were cancelled; dry_run only counts.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/count_selected.sql

-- How many selected messages are in these states: ready, scheduled, line (group backlog), lease.
-- Locks nothing.
create or replace function pgq._count_selected(selection pgq._selection, places text[])
returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(sum(case when not selection.tested then pgq._set_size(s.ids) else (
            select count(*) from unnest(s.ids) u
            join pgq.message m on m.id >= lower(u) and m.id < upper(u)
            where pgq._is_selected(selection, m, s.attempt)) end), 0)::bigint
        from (
            select w.attempt, coalesce(w.ids * selection.ids, w.ids)
                       - coalesce(selection.spared, '{}') as ids
            from (
                select r.ids, r.attempt + 1 as attempt from pgq.ready r
                where r.queue_id = selection.queue_id and 'ready' = any (places)
                union all
                select c.ids, c.attempt + 1 from pgq.scheduled c
                where c.queue_id = selection.queue_id and 'scheduled' = any (places)
                union all
                select int8multirange(int8range(g.message_id, g.message_id + 1)), 1
                from pgq.group_line g
                where g.queue_id = selection.queue_id and 'line' = any (places)
                union all
                select l.ids, l.attempt from pgq.lease l
                where l.queue_id = selection.queue_id and 'lease' = any (places)
            ) w
        ) s
        where s.ids <> '{}');
end
$$;
comment on function pgq._count_selected(pgq._selection, text[]) is
    'How many selected messages are in these states.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/destination.sql

-- The destination queue of a move or replay, for a caller who may publish to it.
create or replace function pgq._destination(caller name, queue pgq.queue, to_queue text)
returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_to pgq.queue := pgq._queue_for(caller, 'publish', to_queue);
begin
    if v_to.mode = 'archive' then
        raise exception 'queue "%" is an archive: it stores and does not deliver', v_to.name
            using errcode = 'feature_not_supported', hint = 'Name a queue that delivers.';
    elsif v_to.queue_id = queue.queue_id then
        raise exception 'the messages are in queue "%" already', v_to.name
            using errcode = 'invalid_parameter_value',
                  hint = 'Name another queue as the destination.';
    end if;
    return v_to;
end
$$;
comment on function pgq._destination(name, pgq.queue, text) is
    'The destination queue of a move or replay.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/find_ready.sql

-- Selected messages in the next ready rows of a queue, from a rank on. Rows without such messages
-- are returned too, with size 0, so that the caller continues after the last rank. Locks nothing.
create or replace function pgq._find_ready(selection pgq._selection, low bigint, "rows" int)
returns table (place tid, rank bigint, ids int8multirange, size bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- In the order of the index: a sort would read the whole backlog for each slice.
set enable_sort = off
set enable_bitmapscan = off
as $$
begin
    return query
        select x.place, x.rank, s.ids, coalesce(s.size, 0)
        from (
            select r.ctid as place, r.rank, r.attempt,
                   coalesce(r.ids * selection.ids, r.ids) - coalesce(selection.spared, '{}') as ids
            from pgq.ready r
            where r.queue_id = selection.queue_id and r.rank >= low
              and (selection.ids is null or r.ids && selection.ids)
            order by r.rank limit "rows"
        ) x
        cross join lateral (
            select range_agg(int8range(m.id, m.id + 1)) as ids, count(*) as size
            from unnest(x.ids) u
            join pgq.message m on m.id >= lower(u) and m.id < upper(u)
            where selection.tested and pgq._is_selected(selection, m, x.attempt + 1)
            having selection.tested
            union all
            select x.ids, pgq._set_size(x.ids) where not selection.tested
        ) s;
end
$$;
comment on function pgq._find_ready(pgq._selection, bigint, int) is
    'Selected messages in the next ready rows of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/find_scheduled.sql

-- Selected messages in the next scheduled rows of a queue that are due after a time: so many rows,
-- and ties of the last. Rows without such messages are returned with size 0. Locks nothing.
create or replace function pgq._find_scheduled(
    selection pgq._selection, after timestamptz, "rows" int
) returns table (place tid, due_at timestamptz, ids int8multirange, size bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- In the order of the index: a sort would read the whole backlog for each slice.
set enable_sort = off
set enable_bitmapscan = off
as $$
begin
    return query
        select x.place, x.due_at, s.ids, s.size
        from (
            select c.ctid as place, c.due_at, c.attempt,
                   coalesce(c.ids * selection.ids, c.ids) - coalesce(selection.spared, '{}') as ids
            from pgq.scheduled c
            where c.queue_id = selection.queue_id and c.due_at > after
              and (selection.ids is null or c.ids && selection.ids)
            order by c.due_at fetch first "rows" rows with ties
        ) x
        cross join lateral (
            select range_agg(int8range(m.id, m.id + 1)) as ids, count(*) as size
            from unnest(x.ids) u
            join pgq.message m on m.id >= lower(u) and m.id < upper(u)
            where selection.tested and pgq._is_selected(selection, m, x.attempt + 1)
            having selection.tested
            union all
            select x.ids, pgq._set_size(x.ids) where not selection.tested
        ) s;
end
$$;
comment on function pgq._find_scheduled(pgq._selection, timestamptz, int) is
    'Selected messages in the next scheduled rows of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/join_moved.sql

-- Puts messages of ordering groups into a queue, in order, each with its failures and due time.
create or replace function pgq._join_moved(
    queue pgq.queue, ids bigint[], failures jsonb[], dues timestamptz[], now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
begin
    for v_message in
        select m.id, u.failures, u.due_at
        from unnest(_join_moved.ids, _join_moved.failures, dues) u (id, failures, due_at)
        join pgq.message m on m.id = u.id order by m.group_key, m.id
    loop
        perform pgq._rejoin_groups(
            queue, array[v_message.id], v_message.failures, v_message.due_at, now);
    end loop;
end
$$;
comment on function pgq._join_moved(
    pgq.queue, bigint[], jsonb[], timestamptz[], timestamptz) is
    'Puts messages of ordering groups into a queue, each with its failures and due time.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/lock_line.sql

-- The next selected messages that wait in ordering groups, after a group key and an id. Locks their
-- groups, so that none of them advances meanwhile. Waits for publishers of these groups in key
-- order, which is the lock order of publishers too.
create or replace function pgq._lock_line(
    selection pgq._selection, after_key text, after_id bigint, n bigint,
    out keys text[], out ids bigint[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    select array_agg(x.group_key), array_agg(x.message_id) into keys, ids
    from (
        select g.group_key, g.message_id
        from pgq.group_line g join pgq.message m on m.id = g.message_id
        where g.queue_id = selection.queue_id
          and (g.group_key, g.message_id) > (after_key, after_id)
          and (selection.ids is null or selection.ids @> g.message_id)
          and (selection.spared is null or not selection.spared @> g.message_id)
          and pgq._is_selected(selection, m, 1)
        order by g.group_key, g.message_id limit n
    ) x;
    perform from pgq.group_head h
    where h.queue_id = selection.queue_id and h.group_key = any (keys)
    order by h.group_key for update;
end
$$;
comment on function pgq._lock_line(pgq._selection, text, bigint, bigint) is
    'Finds selected messages that wait in ordering groups, and locks the groups.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/move.sql

-- Moves waiting messages from one queue to another.
create or replace function pgq.move(
    topic text,
    to_topic text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_from pgq.queue := pgq._queue_for(caller, 'admin', move.topic);
    v_to pgq.queue := pgq._destination(caller, v_from, move.to_topic);
    v_selection pgq._selection := pgq._select_messages(v_from, null, filter, null);
    v_set pgq._withdrawn;
    v_heads int8multirange := '{}';
    v_grouped bigint[] := '{}';
    v_failures jsonb[] := '{}';
    v_dues timestamptz[] := '{}';
    v_list bigint[];
    v_count bigint := 0::bigint;
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value', hint = 'Leave it out for all of them.';
    end if;
    if not dry_run then
        -- Excludes other moves and replays, and subscriptions that add older messages: the
        -- destination must not get a message twice.
        perform pgq._lock('replay');
        lock table pgq.message in row exclusive mode;
    end if;
    -- Usually empty. Subtracting all ids of the destination from each row would read all of them.
    v_selection.spared := nullif(
        pgq._held_by(v_to.queue_id) * pgq._held_by(v_from.queue_id), '{}');
    if dry_run then
        perform pgq._say_leased(v_selection, 'move');
        return least(pgq._count_selected(v_selection, '{ready,scheduled,line}'), n);
    end if;
    for v_set in select * from pgq._withdraw(v_selection, n) loop
        perform pgq._record(v_from.queue_id, 'move', v_set.attempt, v_set.ids, 'to ' || v_to.name);
        perform pgq._record(v_to.queue_id, 'arrive', 0, v_set.ids, 'from ' || v_from.name);
        v_count := v_count + v_set.size;
        if v_set.grouped then
            v_heads := v_heads + v_set.ids;
            v_list := array(select generate_series(lower(r), upper(r) - 1)
                            from unnest(v_set.ids) r);
            v_grouped := v_grouped || v_list;
            v_failures := v_failures
                || array_fill(v_set.failures, array[cardinality(v_list)]);
            v_dues := v_dues || array_fill(v_set.due_at, array[cardinality(v_list)]);
        elsif v_set.due_at > v_selection.now then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, failures, ids)
            values (v_to.queue_id, v_set.due_at, 0, v_set.size, v_set.failures, v_set.ids);
            perform pgq._wake(v_to.queue_id);
        else
            perform pgq._enqueue(v_to, v_set.ids, 0, v_set.failures, false,
                                 back => v_set.failures is not null);
        end if;
    end loop;
    if v_heads <> '{}' then
        perform pgq._advance_groups(v_from, v_heads, v_selection.now);
        perform pgq._join_moved(v_to, v_grouped, v_failures, v_dues, v_selection.now);
    end if;
    perform pgq._say_leased(v_selection, 'move');
    return v_count;
end
$$;
comment on function pgq.move(text, text, jsonb, int, boolean, pgq.caller) is
    'Moves waiting messages of a queue to the queue to_topic: all messages, or those that match '
    'the filter, at most n, in delivery order. They keep their ids and due times, and their '
    'attempts start again. Leased messages stay, and so do messages that the other queue holds '
    'already. Returns how many were moved; dry_run only counts.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/purge.sql

-- Ends all waiting messages of a queue.
create or replace function pgq.purge(
    topic text,
    filter jsonb default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', purge.topic);
    v_selection pgq._selection := pgq._select_messages(v_queue, null, filter, null);
begin
    if dry_run then
        perform pgq._say_leased(v_selection, 'purge');
        return pgq._count_selected(v_selection, '{ready,scheduled,line}');
    end if;
    return pgq._cancel(v_queue, v_selection, 'purge');
end
$$;
comment on function pgq.purge(text, jsonb, boolean, pgq.caller) is
    'Ends all waiting messages of a queue, or those that match the filter: ready, scheduled, and '
    'in ordering groups. Leased messages stay; a notice says how many. Dead letters, '
    'subscriptions and rights stay, too. Returns how many were purged; dry_run only counts. It is '
    'one transaction: a million messages take seconds.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/reschedule.sql

-- Changes the delivery time of waiting messages.
create or replace function pgq.reschedule(
    queue text,
    ids bigint[] default null,
    filter jsonb default null,
    at timestamptz default null,
    delay interval default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', reschedule.queue);
    v_selection pgq._selection := pgq._select_messages(v_queue, ids, filter, null);
    v_due timestamptz := coalesce(at, v_selection.now + coalesce(delay, interval '0'));
    v_later boolean;
    v_set pgq._withdrawn;
    v_count bigint := 0::bigint;
begin
    if num_nonnulls(at, delay) = 2 or delay < interval '0' or at = 'infinity' then
        raise exception 'the new time must be either at or delay, not negative and not infinity'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave both out to deliver the messages now.';
    end if;
    v_later := v_due > v_selection.now;
    if dry_run then
        perform pgq._say_leased(v_selection, 'reschedule');
        return pgq._count_selected(
            v_selection, case when v_later then array['ready', 'scheduled', 'line']
                         else array['scheduled', 'line'] end);
    end if;
    v_count := pgq._reschedule_line(v_selection, case when v_later then v_due else '-infinity' end);
    for v_set in
        select * from pgq._withdraw_scheduled(v_selection, null)
        union all
        select * from pgq._withdraw_ready(v_selection, null) where v_later
    loop
        perform pgq._record(v_queue.queue_id, 'reschedule', v_set.attempt, v_set.ids,
                            'due ' || v_due);
        v_count := v_count + v_set.size;
        if v_later then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_queue.queue_id, v_due, v_set.attempt, v_set.size, v_set.grouped,
                    v_set.failures, v_set.ids);
        else
            perform pgq._enqueue(
                v_queue, v_set.ids, v_set.attempt, v_set.failures, v_set.grouped);
        end if;
        if v_queue.dedup <> 'keep' then  -- a later message with the key finds this one by due_at
            update pgq.dedup d set due_at = v_due
            where d.ctid = any (array(
                select k.ctid from pgq.dedup k
                where k.queue_id = v_queue.queue_id and v_set.ids @> k.message_id
                for update skip locked));
        end if;
    end loop;
    perform pgq._wake(v_queue.queue_id);
    perform pgq._say_leased(v_selection, 'reschedule');
    return v_count;
end
$$;
comment on function pgq.reschedule(
    text, bigint[], jsonb, timestamptz, interval, boolean, pgq.caller) is
    'Changes the delivery time of waiting messages of a queue: all messages, or those that match '
    'ids and filter. The new time is at, or now plus delay; without both, now. A message of an '
    'ordering group still waits for its turn. Leased messages stay. Returns how many were '
    'rescheduled; dry_run only counts.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/reschedule_line.sql

-- Sets the earliest delivery time of selected messages that wait in ordering groups, for when their
-- turn comes. Returns how many.
create or replace function pgq._reschedule_line(selection pgq._selection, due timestamptz)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_line record;
    v_key text := '';
    v_id bigint := 0::bigint;
    v_ids int8multirange;
    v_count bigint := 0::bigint;
begin
    loop
        v_line := pgq._lock_line(selection, v_key, v_id, pgq._limit('operate_rows'));
        exit when v_line.ids is null;
        with changed as (
            update pgq.group_line g set due_at = due
            from unnest(v_line.keys, v_line.ids) x (key, id)
            where g.queue_id = selection.queue_id and g.group_key = x.key and g.message_id = x.id
            returning g.message_id
        )
        select range_agg(int8range(c.message_id, c.message_id + 1)) into v_ids from changed c;
        if v_ids is not null then
            perform pgq._record(selection.queue_id, 'reschedule', 0, v_ids, 'when it is its turn');
            v_count := v_count + pgq._set_size(v_ids);
        end if;
        v_key := v_line.keys[cardinality(v_line.keys)];
        v_id := v_line.ids[cardinality(v_line.ids)];
    end loop;
    return v_count;
end
$$;
comment on function pgq._reschedule_line(pgq._selection, timestamptz) is
    'Sets the earliest delivery time of messages that wait in ordering groups.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/say_leased.sql

-- Raises a notice with the number of selected messages that stay because they are leased.
create or replace function pgq._say_leased(selection pgq._selection, verb text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count bigint := pgq._count_selected(selection, '{lease}');
begin
    if v_count > 0 then
        raise notice '% leaves % leased messages as they are', verb, v_count
            using hint = 'pgq.leases lists who holds them; pgq.release(lease_id) gives them back.';
    end if;
end
$$;
comment on function pgq._say_leased(pgq._selection, text) is
    'Raises a notice with the number of selected messages that are leased.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/select_messages.sql

-- Checks the arguments that select messages of a queue.
create or replace function pgq._select_messages(
    queue pgq.queue, ids bigint[], filter jsonb, dedup_key text
) returns pgq._selection
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
begin
    if nullif(filter, '{}') is not null then
        v_filter := pgq._find_filter(filter, null);
    end if;
    return row(queue.queue_id, case when ids is not null then pgq._set_of(ids) end, null,
               v_filter.path, v_filter.scope, dedup_key,
               v_filter.path is not null or dedup_key is not null, pgq.now())::pgq._selection;
end
$$;
comment on function pgq._select_messages(pgq.queue, bigint[], jsonb, text) is
    'The selection that the arguments describe, or QU004.';

-- Whether a message meets the conditions of a selection other than the ids. The planner inlines it.
create or replace function pgq._is_selected(
    selection pgq._selection, m pgq.message, attempt int
) returns boolean
language sql stable parallel safe
return (selection.dedup_key is null or m.dedup_key = selection.dedup_key)
    and pgq._matches(selection.path, selection.scope, m, attempt, selection.now);
comment on function pgq._is_selected(pgq._selection, pgq.message, int) is
    'Whether a message is selected.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/withdraw.sql

-- Takes selected messages, at most n, out of group backlogs, scheduled rows and ready rows; leased
-- ones stay. The caller ends or moves them, and advances groups whose heads are gone.
create or replace function pgq._withdraw(selection pgq._selection, n bigint default null)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set pgq._withdrawn;
    v_left bigint := n;
begin
    if n is null then
        -- Messages move from group backlogs and from scheduled rows to ready rows: in this order
        -- none is missed.
        return query select * from pgq._withdraw_line(selection, null);
        return query select * from pgq._withdraw_scheduled(selection, null);
        return query select * from pgq._withdraw_ready(selection, null);
        return;
    end if;
    -- With a limit, the next to be delivered come first.
    for v_set in select * from pgq._withdraw_ready(selection, v_left) loop
        v_left := v_left - v_set.size;
        return next v_set;
    end loop;
    if v_left > 0 then
        for v_set in select * from pgq._withdraw_scheduled(selection, v_left) loop
            v_left := v_left - v_set.size;
            return next v_set;
        end loop;
    end if;
    if v_left > 0 then
        return query select * from pgq._withdraw_line(selection, v_left);
    end if;
end
$$;
comment on function pgq._withdraw(pgq._selection, bigint) is
    'Takes messages out of group backlogs, scheduled rows and ready rows.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/withdraw_line.sql

-- Takes selected messages, at most n, out of the backlogs of their ordering groups.
create or replace function pgq._withdraw_line(selection pgq._selection, n bigint)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_line record;
    v_key text := '';
    v_id bigint := 0::bigint;
    v_left bigint := n;
begin
    loop
        v_line := pgq._lock_line(
            selection, v_key, v_id, least(v_left, pgq._limit('operate_rows')));
        exit when v_line.ids is null;
        return query
            with gone as (
                delete from pgq.group_line g using unnest(v_line.keys, v_line.ids) x (key, id)
                where g.queue_id = selection.queue_id and g.group_key = x.key
                  and g.message_id = x.id
                returning g.message_id, g.failures, g.due_at
            )
            select g.due_at, 0, g.failures, true, count(*)::int,
                   range_agg(int8range(g.message_id, g.message_id + 1))
            from gone g group by g.failures, g.due_at;
        v_left := v_left - cardinality(v_line.ids);
        exit when v_left = 0;
        v_key := v_line.keys[cardinality(v_line.keys)];
        v_id := v_line.ids[cardinality(v_line.ids)];
    end loop;
end
$$;
comment on function pgq._withdraw_line(pgq._selection, bigint) is
    'Takes messages out of the backlogs of ordering groups.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/withdraw_ready.sql

-- Takes selected messages, at most n, out of the ready rows of a queue, in delivery order.
create or replace function pgq._withdraw_ready(selection pgq._selection, n bigint)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := pgq._rank_first();
    v_left bigint := n;
    v_all record;
    v_found record;
    v_set pgq._withdrawn;
    v_missed record;
    v_tries int := 0;
begin
    -- Take whole rows first, many at a time; rows that others have locked are retried below.
    while not selection.tested and num_nonnulls(selection.ids, selection.spared, n) = 0 loop
        v_all := pgq._take_all_ready(
            selection.queue_id, v_low, 10 * pgq._limit('operate_rows'));
        exit when v_all.last is null;
        return query select * from unnest(v_all.sets);
        v_low := v_all.last + 1;
    end loop;
    v_low := pgq._rank_first();
    loop
        select array_agg(f.place) filter (where f.size > 0) as places,
               array_agg(f.ids) filter (where f.size > 0) as sets,
               max(f.rank) as last, count(*) as count
        into v_found
        from pgq._find_ready(selection, v_low, pgq._limit('operate_rows')) f;
        for v_set in
            select * from pgq._take_ready(
                selection.queue_id, v_found.places, v_found.sets, v_left)
        loop
            v_left := v_left - v_set.size;
            return next v_set;
        end loop;
        exit when v_left = 0;
        v_low := v_found.last + 1;
        -- A claim has locked these rows, and may put a part of their messages back.
        select array_agg(r.ctid) as places, min(r.rank) as rank into v_missed
        from (
            select x.ctid, x.rank, x.queue_id from pgq.ready x
            where x.ctid = any (v_found.places) offset 0
        ) r
        where r.queue_id = selection.queue_id;
        if v_missed.places is not null and v_tries < 5 and pgq._await_rows(v_missed.places) then
            v_low := v_missed.rank;
            v_tries := v_tries + 1;
        elsif v_found.count < pgq._limit('operate_rows') then
            exit;
        end if;
    end loop;
end
$$;
comment on function pgq._withdraw_ready(pgq._selection, bigint) is
    'Takes messages out of the ready rows of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/58_operate/withdraw_scheduled.sql

-- Takes selected messages, at most n, out of the scheduled rows of a queue, the next due first.
create or replace function pgq._withdraw_scheduled(selection pgq._selection, n bigint)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_after timestamptz := '-infinity';
    v_left bigint := n;
    v_found record;
    v_set pgq._withdrawn;
begin
    loop
        select array_agg(f.place) filter (where f.size > 0) as places,
               array_agg(f.ids) filter (where f.size > 0) as sets,
               max(f.due_at) as last, count(*) as count
        into v_found
        from pgq._find_scheduled(selection, v_after, pgq._limit('operate_rows')) f;
        for v_set in
            select * from pgq._take_scheduled(
                selection.queue_id, v_found.places, v_found.sets, v_left)
        loop
            v_left := v_left - v_set.size;
            return next v_set;
        end loop;
        exit when v_left = 0 or v_found.count < pgq._limit('operate_rows');
        v_after := v_found.last;
    end loop;
end
$$;
comment on function pgq._withdraw_scheduled(pgq._selection, bigint) is
    'Takes messages out of the scheduled rows of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/cause_filter.sql

-- The filter of a cause: on why messages died, not on the messages.
create or replace function pgq._cause_filter(cause jsonb) returns pgq.filter
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._find_filter(coalesce(cause, '{}'), null);
    v_unknown text;
begin
    select coalesce(l.leaf #>> '{path,0}', l.leaf ->> 'in') into v_unknown
    from jsonb_path_query(pgq._filter_parse(cause), '$.** ? (exists (@."in"))') l (leaf)
    where l.leaf ->> 'in' <> 'headers' or l.leaf #>> '{path,0}' not in (
        'reason', 'error', 'attempts', 'failed_at', 'holder', 'replay_count')
    limit 1;
    if found then
        raise exception 'a dead letter has no "%"', v_unknown
            using errcode = 'QU004',
                  hint = 'A cause has reason, error, attempts, failed_at, holder and replay_count; '
                      'headers and payload belong into the filter.';
    end if;
    return v_filter;
end
$$;
comment on function pgq._cause_filter(jsonb) is 'The filter of a cause of dead letters.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/cause_of.sql

-- Why a message died, as headers that the filter of a cause is tested on. Times are text in UTC, so
-- that the order of the text is the order of time.
create or replace function pgq._cause_of(letter pgq.letter) returns jsonb
language sql stable parallel safe
return jsonb_strip_nulls(jsonb_build_object(
    'reason', letter.reason, 'error', letter.error, 'attempts', letter.attempts,
    'failed_at', to_char(letter.failed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'holder', letter.holder, 'replay_count', letter.replay_count));
comment on function pgq._cause_of(pgq.letter) is 'Why a message died, as headers for a filter.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/dead_letter_ids.sql

-- Dead letters of a queue in the order of their end. Reads them by letter_failed_idx until n match.
-- The view pgq.dead_letter cannot: the planner sorts all rows of a security barrier view.
create or replace function pgq.dead_letter_ids(
    queue text,
    filter jsonb default null,
    cause jsonb default null,
    n int default 100,
    newest boolean default false,
    search text default null,
    before timestamptz default null,
    before_id bigint default null,
    caller pgq.caller default current_user
) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', dead_letter_ids.queue);
    v_filter pgq.filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_cause pgq.filter := pgq._cause_filter(cause);
    v_now timestamptz := pgq.now();
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out for 100, or pass null for all.';
    end if;
    return query
        select d.dead_letter_id
        from (
            -- One of the two reads nothing.
            (select l.*, pgq._cause_of(l) as died from pgq.letter l
             where not newest and l.queue_id = v_queue.queue_id
             order by l.failed_at, l.dead_letter_id)
            union all
            (select l.*, pgq._cause_of(l) as died from pgq.letter l
             where newest and l.queue_id = v_queue.queue_id
               and (l.failed_at, l.dead_letter_id)
                   < (coalesce(before, 'infinity'), coalesce(before_id, 9223372036854775807))
             order by l.failed_at desc, l.dead_letter_id desc)
        ) d
        where pgq._test_filter(
                  v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority,
                  d.sender, d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts,
                  d.published_at, d.expires_at, d.message_id, v_now)
          and (cause is null or pgq._test_filter(
                  v_cause.path, v_cause.scope, d.died, null, null, null, null, null, null,
                  null, null, null, null, null, null, v_now))
          and (search is null or position(lower(search) in lower(
                  concat_ws(' ', d.error, d.headers::text, d.payload::text))) > 0)
        limit n;
end
$$;
comment on function pgq.dead_letter_ids(
    text, jsonb, jsonb, int, boolean, text, timestamptz, bigint, pgq.caller) is
    'The dead_letter_id of at most n dead letters of a queue, the oldest first, that match the '
    'filter and the cause (see pgq.replay) and have the text search in error, headers or payload. '
    'With newest, the newest first, and with before and before_id (failed_at and dead_letter_id '
    'of the last one) those that ended before it. Reads only as many as it needs, where '
    'ORDER BY and LIMIT on the view pgq.dead_letter read all.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/dead_letters.sql

-- The n oldest dead letters of a queue whose message matches a filter and whose cause of death
-- matches another. If they are to be taken, they are locked, and those that another transaction has
-- locked are left out.
create or replace function pgq._dead_letters(
    queue_id int, filter jsonb, cause jsonb, n int, taken boolean
) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_cause pgq.filter;
    v_now timestamptz := pgq.now();
    v_found bigint[];
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value', hint = 'Leave it out for all of them.';
    end if;
    v_filter := pgq._find_filter(coalesce(filter, '{}'), null);
    v_cause := pgq._cause_filter(cause);
    v_found := array(
        select d.dead_letter_id from pgq.letter d
        where d.queue_id = _dead_letters.queue_id
          and pgq._test_filter(
              v_filter.path, v_filter.scope, d.headers, d.payload, d.topic, d.priority, d.sender,
              d.recipient, d.reply_to, d.correlation_id, d.group_key, d.attempts, d.published_at,
              d.expires_at, d.message_id, v_now)
          and (cause is null or pgq._test_filter(
              v_cause.path, v_cause.scope, pgq._cause_of(d), null, null, null, null, null, null,
              null, null, null, null, null, null, v_now))
        order by d.failed_at, d.dead_letter_id limit n);
    if taken then
        v_found := array(
            select d.dead_letter_id from pgq.letter d
            where d.dead_letter_id = any (v_found) for update skip locked);
    end if;
    return v_found;
end
$$;
comment on function pgq._dead_letters(int, jsonb, jsonb, int, boolean) is
    'The dead letters of a queue that match a filter and a cause.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/discard.sql

-- Deletes dead letters, the oldest first.
create or replace function pgq.discard(
    queue text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    cause jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', discard.queue);
    v_letters bigint[] := pgq._dead_letters(v_queue.queue_id, filter, cause, n, not dry_run);
    v_gone record;
begin
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    with gone as (
        delete from pgq.letter d where d.dead_letter_id = any (v_letters)
        returning d.message_id, d.group_key
    )
    select array_agg(g.message_id) as ids, array_agg(g.group_key) as keys into v_gone from gone g;
    perform pgq._record(v_queue.queue_id, 'discard', 0, pgq._set_of(v_gone.ids), null);
    perform pgq._unblock_groups(v_queue, v_gone.ids, v_gone.keys, pgq.now());
    return cardinality(v_letters);
end
$$;
comment on function pgq.discard(text, jsonb, int, boolean, jsonb, pgq.caller) is
    'Deletes the dead letters of a queue that match the filter and the cause (see pgq.replay), at '
    'most n, the oldest first. Returns how many; dry_run only counts.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/merge_patch.sql

-- Applies a JSON merge patch (RFC 7396): objects are merged key by key, null removes a key, any
-- other value replaces the old one.
create or replace function pgq._merge_patch(target jsonb, patch jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(patch) <> 'object' then
        return patch;
    end if;
    if jsonb_typeof(target) <> 'object' then
        target := '{}';
    end if;
    return coalesce((
        select jsonb_object_agg(
            coalesce(p.key, t.key),
            case when p.key is null then t.value else pgq._merge_patch(t.value, p.value) end)
        from jsonb_each(target) t full join jsonb_each(patch) p on p.key = t.key
        where p.key is null or p.value <> 'null'), '{}');
end
$$;
comment on function pgq._merge_patch(jsonb, jsonb) is
    'Applies a JSON merge patch (RFC 7396).';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/replay.sql

-- Puts dead letters back into their queue, or into another one, the oldest first.
create or replace function pgq.replay(
    queue text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    cause jsonb default null,
    to_queue text default null,
    per_second int default null,
    patch jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', replay.queue);
    v_to pgq.queue := v_queue;
    v_now timestamptz := pgq.now();
    v_letters bigint[];
    v_ids bigint[];
    v_gone record;
    v_set record;
    v_count int := 0;
begin
    if per_second < 1 then
        raise exception 'per_second must be positive, not %', per_second
            using errcode = 'invalid_parameter_value', hint = 'Leave it out to replay at once.';
    end if;
    if to_queue is not null then
        v_to := pgq._destination(caller, v_queue, to_queue);
    end if;
    v_letters := pgq._dead_letters(v_queue.queue_id, filter, cause, n, not dry_run);
    if to_queue is not null and patch is null then
        if not dry_run then
            -- As in pgq.move: the other queue must not get a message twice.
            perform pgq._lock('replay');
            lock table pgq.message in row exclusive mode;
        end if;
        v_letters := array(
            select d.dead_letter_id from pgq.letter d
            where d.dead_letter_id = any (v_letters)
              and not pgq._held_by(v_to.queue_id) @> d.message_id
            order by d.failed_at, d.dead_letter_id);
    end if;
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    v_ids := pgq._restore_messages(v_letters, patch);
    select array_agg(d.message_id) as ids, array_agg(d.group_key) as keys into v_gone
    from pgq.letter d where d.dead_letter_id = any (v_letters);
    if patch is not null and to_queue is null then
        -- If a dead letter blocks its group, the new message becomes the head instead.
        update pgq.group_head h set message_id = u.id
        from unnest(v_letters, v_ids) u (letter, id)
        join pgq.letter d on d.dead_letter_id = u.letter
        where h.queue_id = v_queue.queue_id and h.group_key = d.group_key
          and h.message_id = d.message_id;
    end if;
    for v_set in
        with gone as (
            delete from pgq.letter d where d.dead_letter_id = any (v_letters) returning d.*
        ), numbered as (
            select g.*, u.id as new_id,
                   v_now + coalesce((row_number() over (order by g.failed_at, g.dead_letter_id) - 1)
                       / per_second, 0) * interval '1 s' as due_at
            from gone g join unnest(v_letters, v_ids) u (letter, id) on u.letter = g.dead_letter_id
        )
        -- Ordered by group and id, because the first message that joins a group becomes its head.
        select x.failures, coalesce(x.expires_at <= v_now, false) as expired, x.group_key, x.due_at,
               case when patch is not null then 'changed from message ' || x.message_id end as note,
               range_agg(int8range(x.message_id, x.message_id + 1)) as old,
               array_agg(x.new_id order by x.new_id) as ids
        from numbered x group by 1, 2, 3, 4, 5 order by x.group_key, min(x.new_id)
    loop
        perform pgq._revive(
            v_to, v_set.ids,
            pgq._failure(v_set.failures, 'replay', null, null, null, null, v_set.note, v_now),
            v_set.expired, v_set.group_key, v_set.due_at, v_now);
        perform pgq._record(
            v_queue.queue_id, 'replay', 0, v_set.old,
            case when to_queue is not null then 'to ' || v_to.name end);
        if to_queue is not null or patch is not null then
            perform pgq._record(
                v_to.queue_id, 'arrive', 0, pgq._set_of(v_set.ids),
                coalesce(v_set.note, 'from ' || v_queue.name));
        end if;
        v_count := v_count + cardinality(v_set.ids);
    end loop;
    if to_queue is not null then
        perform pgq._unblock_groups(v_queue, v_gone.ids, v_gone.keys, v_now);
    end if;
    return v_count;
end
$$;
comment on function pgq.replay(
    text, jsonb, int, boolean, jsonb, text, int, jsonb, pgq.caller) is
    'Returns dead letters to their queue (redrive), the oldest first, at most n; their attempts '
    'start again. Selects dead letters whose message matches the filter and whose end matches the '
    'cause: a filter over reason, error, attempts, failed_at (text in UTC, such as '
    '2030-01-31T12:00), holder and replay_count. With to_queue they go to that queue instead. '
    'With per_second, that many become due per second from now on. With patch, a JSON merge patch '
    'of the payload, each becomes a new message. Returns how many; dry_run only counts. A message '
    'that fails again keeps its replay_count and its whole history.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/restore_messages.sql

-- Ensures that the messages of dead letters are in the log, and returns their ids in that order.
-- With a patch they are new messages, because a message in the log never changes.
create or replace function pgq._restore_messages(letters bigint[], patch jsonb) returns bigint[]
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
    v_new boolean := patch is not null;
begin
    -- Finished messages become unfinished again: their era must not be truncated meanwhile.
    perform pgq._share_lock('era');
    -- The log may no longer have the message; the dead letter has all of it. Another queue may
    -- replay the same message at this moment: the lock makes one wait for the other.
    if not v_new and exists (
        select from pgq.letter d
        where d.dead_letter_id = any (letters)
          and not exists (select from pgq.message m where m.id = d.message_id))
    then
        perform pgq._refuse_snapshot();
        perform pgq._lock('replay');
    end if;
    v_ids := array(
        select case when v_new then nextval('pgq.message_id') else d.message_id end
        from unnest(letters) with ordinality u (id, i)
        join pgq.letter d on d.dead_letter_id = u.id order by u.i);
    insert into pgq.message (
        id, topic, priority, headers, payload, sender, recipient, reply_to, correlation_id,
        group_key, dedup_key, deliver_at, expires_at, published_at, publisher)
    select u.message_id, d.topic, d.priority, d.headers,
           case when v_new then pgq._merge_patch(d.payload, patch) else d.payload end, d.sender,
           d.recipient, d.reply_to, d.correlation_id, d.group_key, d.dedup_key, 'infinity',
           d.expires_at, d.published_at, null
    from unnest(letters, v_ids) u (id, message_id)
    join pgq.letter d on d.dead_letter_id = u.id
    where not exists (select from pgq.message m where m.id = u.message_id);
    return v_ids;
end
$$;
comment on function pgq._restore_messages(bigint[], jsonb) is
    'Ensures that the messages of dead letters are in the log.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/revive.sql

-- Puts messages of dead letters into a queue, at their due time: a part of replay.
create or replace function pgq._revive(
    queue pgq.queue, ids bigint[], failures jsonb, expired boolean, group_key text,
    due_at timestamptz, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if group_key is not null then
        perform pgq._rejoin_groups(queue, ids, failures, due_at, now);
    elsif due_at > now then
        insert into pgq.scheduled (queue_id, due_at, attempt, size, failures, ids)
        values (queue.queue_id, _revive.due_at, 0, cardinality(_revive.ids), _revive.failures,
                pgq._set_of(_revive.ids));
        perform pgq._wake(queue.queue_id);
    else
        perform pgq._enqueue(queue, pgq._set_of(_revive.ids), 0, _revive.failures, false, expired);
    end if;
end
$$;
comment on function pgq._revive(
    pgq.queue, bigint[], jsonb, boolean, text, timestamptz, timestamptz) is
    'Puts messages of dead letters into a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/60_dead_letter/unblock_groups.sql

-- Advances groups that were blocked by dead letters, after these were deleted. Ids and keys are
-- parallel arrays; a key may be null.
create or replace function pgq._unblock_groups(
    queue pgq.queue, ids bigint[], keys text[], now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group record;
    v_next record;
begin
    for v_group in
        select u.id, u.key from unnest(_unblock_groups.ids, keys) u (id, key)
        where u.key is not null order by u.key, u.id
    loop
        v_next := pgq._advance_group(queue.queue_id, v_group.key, v_group.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (queue.queue_id, v_group.key, v_group.id);
        elsif v_next.next_id is not null then
            perform pgq._admit_heads(
                queue, array[v_next.next_id], v_next.failures, now, v_next.due_at);
        end if;
    end loop;
end
$$;
comment on function pgq._unblock_groups(pgq.queue, bigint[], text[], timestamptz) is
    'Advances groups that dead letters have blocked.';
$pgq_script$;
    execute $pgq_script$
-- sql/65_traffic/count_traffic.sql

-- Adds the events since the last count to pgq.traffic, and records how far it has counted. One
-- statement, because it must record the snapshot that it reads with. Called at the beginning of a
-- transaction, whose own rows are left to the next count.
create or replace function pgq._count_traffic(now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgq.maintenance m
               where m.counted_at > _count_traffic.now - interval '10 s'
                 and m.counted_at <= _count_traffic.now)
    then
        return;
    end if;
    with fresh as materialized (
        select u.queue_id, u.minute, u.event, u.size from pgq._uncounted(false) u
        join pgq.queue q on q.queue_id = u.queue_id
    ), added as (
        insert into pgq.traffic as t (queue_id, minute, event, size)
        select f.queue_id, f.minute, f.event, f.size from fresh f
        on conflict on constraint traffic_pkey do update set size = t.size + excluded.size
    )
    update pgq.maintenance m
    set counted_at = _count_traffic.now, counted_seen = pg_current_snapshot(),
        counted_by = pg_current_xact_id(),
        before_id = m.counted_id, before_pages = m.counted_pages,
        counted_id = coalesce(pg_sequence_last_value('pgq.message_id'), 0),
        counted_pages = array(
            select (pg_relation_size(r) / current_setting('block_size')::bigint)::int
            from unnest('{pgq.journal_0,pgq.journal_1,pgq.journal_2}'::regclass[]) r);

    insert into pgq.traffic as t (queue_id, minute, event, size)
    select q.queue_id, date_trunc('minute', _count_traffic.now), x.event, x.size
    from pgq.queue q
    cross join lateral (
        select 'ready' as event, coalesce(sum(r.size), 0) as size
        from pgq.ready r where r.queue_id = q.queue_id
        union all
        select 'dead', count(*) from pgq.letter d where d.queue_id = q.queue_id
    ) x
    on conflict on constraint traffic_pkey do update set size = excluded.size;
    delete from pgq.traffic t using pgq.queue q
    where t.queue_id = q.queue_id
      and t.minute < _count_traffic.now - pgq._limit('traffic_hours') * interval '1 h';
end
$$;
comment on function pgq._count_traffic(timestamptz) is
    'Adds the events since the last count to pgq.traffic.';
$pgq_script$;
    execute $pgq_script$
-- sql/65_traffic/is_live.sql

-- Whether the events that are not counted yet are few enough to be counted by a query.
create or replace function pgq._is_live() returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_mark pgq.maintenance;
    v_page constant bigint := current_setting('block_size')::bigint;
begin
    select m.* into v_mark from pgq.maintenance m;
    return coalesce(pg_sequence_last_value('pgq.message_id'), 0) - v_mark.before_id
            <= pgq._limit('live_messages')
        and (select sum(p.size - case when u.pages <= p.size then u.pages else 0 end)
             from unnest('{pgq.journal_0,pgq.journal_1,pgq.journal_2}'::regclass[],
                         v_mark.before_pages) u (slot, pages)
             cross join lateral (select pg_relation_size(u.slot) / v_page as size) p)
            <= pgq._limit('live_pages');
end
$$;
comment on function pgq._is_live() is
    'Whether the uncounted events are few enough to be counted by a query.';
$pgq_script$;
    execute $pgq_script$
-- sql/65_traffic/page_of.sql

-- Where to begin to read the rows that were added since a table had this many pages: 32 pages
-- earlier, because sessions fill the page that they wrote last. A truncated table is read whole.
create or replace function pgq._page_of(relation regclass, pages int) returns tid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pages bigint := pg_relation_size(relation) / current_setting('block_size')::bigint;
begin
    return format('(%s,0)', greatest(
        case when pages <= v_pages then pages - 32 else 0 end,
        v_pages - pgq._limit('count_pages'), 0))::tid;
end
$$;
comment on function pgq._page_of(regclass, int) is
    'Where to begin to read the rows that were added since a table had this many pages.';
$pgq_script$;
    execute $pgq_script$
-- sql/65_traffic/rates.sql

-- Messages of each queue that were received, acknowledged and failed per second, over one to two
-- minutes: from the start of the previous minute to now, or to the last count if there are too many
-- uncounted events. No row: too many, and no count in the last five minutes.
create or replace function pgq._rates()
returns table (queue_id int, received float8, acked float8, failed float8, seconds float8)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_mark pgq.maintenance;
    v_now timestamptz := pgq.now();
    v_live boolean;
    v_from timestamptz;
    v_seconds float8;
begin
    select m.* into v_mark from pgq.maintenance m;
    v_live := pgq._is_live();
    if not v_live then
        if (v_mark.counted_at between v_now - interval '5 min' and v_now) is not true then
            return;
        end if;
        v_now := v_mark.counted_at;
    end if;
    v_from := date_trunc('minute', v_now - interval '1 min');
    v_seconds := extract(epoch from v_now - v_from)::float8;
    return query
        select q.queue_id, coalesce(sum(t.size) filter (where t.event = 'in'), 0) / v_seconds,
               case when q.journal = 'all' then
                   coalesce(sum(t.size) filter (where t.event = 'ack'), 0) / v_seconds
               end,
               coalesce(sum(t.size) filter (where t.event in ('nack', 'bury', 'timeout')), 0)
                   / v_seconds,
               v_seconds
        from pgq.queue q
        left join (
            select t.queue_id, t.event, t.size
            from pgq.queue p join pgq.traffic t on t.queue_id = p.queue_id and t.minute >= v_from
            union all
            select u.queue_id, u.event, u.size from pgq._uncounted(true) u
            where v_live and u.minute >= v_from
            union all
            select b.queue_id, 'in', h.matches
            from pgq.binding_hit h join pgq.binding b on b.binding_id = h.binding_id
            where not h.added_up and h.last_at >= v_from and h.last_at <= v_now
        ) t on t.queue_id = q.queue_id
        group by q.queue_id;
end
$$;
comment on function pgq._rates() is
    'Messages of each queue that were received, acknowledged and failed per second.';
$pgq_script$;
    execute $pgq_script$
-- sql/65_traffic/uncounted.sql

-- The events that the snapshot of the last count could not see, by queue and minute. Reads the log
-- from the id, and the slots of the journal from the pages, of one count earlier: so it finds
-- transactions that were open at the last count, unless they were open at the one before too. With
-- own it includes the current transaction: a query wants these events, a count leaves them to the
-- next one.
create or replace function pgq._uncounted(own boolean)
returns table (queue_id int, minute timestamptz, event text, size bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_mark pgq.maintenance;
    v_since timestamptz := pgq.now() - interval '1 h';
    v_first boolean;
    v_next xid;
    v_running xid[];
    v_own xid := case when not own then xid(pg_current_xact_id_if_assigned()) end;
    v_id bigint;
begin
    select m.* into v_mark from pgq.maintenance m;
    -- A dump that was restored into a younger cluster brings a snapshot from the future.
    v_first := v_mark.counted_seen is null
        or pg_snapshot_xmax(v_mark.counted_seen) > pg_snapshot_xmax(pg_current_snapshot());
    v_next := xid(pg_snapshot_xmax(v_mark.counted_seen));
    v_running := xid(v_mark.counted_by) || array(
        select xid(x) from pg_snapshot_xip(v_mark.counted_seen) x);
    v_id := greatest(v_mark.before_id,
                     pg_sequence_last_value('pgq.message_id') - pgq._limit('count_messages'));
    return query
        -- The messages of a queue's own topic; subscriptions have counters of their own.
        select q.queue_id, t.minute, 'in', t.size
        from (
            select m.topic, date_trunc('minute', m.published_at) as minute, count(*) as size
            from pgq.message m
            where m.id > v_id and m.published_at > v_since
              and m.deliver_at is distinct from 'infinity'
              and (v_first or age(m.xmin) <= age(v_next) or m.xmin = any (v_running))
              and m.xmin is distinct from v_own
            group by 1, 2
        ) t
        join pgq.queue q on q.name = t.topic
        where exists (select from pgq.binding b
                      where b.queue_id = q.queue_id and b.pattern = q.name and not b.counted)
        union all
        select j.queue_id, date_trunc('minute', j.at), j.event, sum(j.size)::bigint
        from (
            select x.xmin as xid, x.queue_id, x.at, x.event, x.size from pgq.journal_0 x
            where x.ctid >= pgq._page_of('pgq.journal_0', v_mark.before_pages[1])
            union all
            select x.xmin, x.queue_id, x.at, x.event, x.size from pgq.journal_1 x
            where x.ctid >= pgq._page_of('pgq.journal_1', v_mark.before_pages[2])
            union all
            select x.xmin, x.queue_id, x.at, x.event, x.size from pgq.journal_2 x
            where x.ctid >= pgq._page_of('pgq.journal_2', v_mark.before_pages[3])
        ) j
        where j.at > v_since
          and (v_first or age(j.xid) <= age(v_next) or j.xid = any (v_running))
          and j.xid is distinct from v_own
        group by 1, 2, 3;
end
$$;
comment on function pgq._uncounted(boolean) is 'The events since the last count.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/00_unsorted_rows.sql

-- The next rows that have no lane, or one of the given stale lanes, with a bounded number of
-- messages in them.
create or replace function pgq._unsorted_rows(queue pgq.queue, stale int[]) returns tid[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select u.ctid
        from (
            select r.ctid, sum(r.size) over (rows unbounded preceding) - r.size as ahead
            from (
                (select t.ctid, t.size from pgq.ready t
                 where queue.unlaned_rows and t.queue_id = queue.queue_id and t.lane_id is null
                   and t.rank >= coalesce(queue.unlaned_rank, pgq._rank_first())
                 order by t.rank limit pgq._limit('sort_messages'))
                union all
                (select t.ctid, t.size from pgq.ready t
                 where t.lane_id = any (stale) and t.queue_id = queue.queue_id
                 limit pgq._limit('sort_messages'))
            ) r
        ) u
        where u.ahead < pgq._limit('sort_messages'));
end
$$;
comment on function pgq._unsorted_rows(pgq.queue, int[]) is
    'The next rows that are to be sorted into lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/archive_begin.sql

-- Acquires the ownership of the archive, or renews it: the owner calls this periodically.
create or replace function pgq.archive_begin(
    owner text, wait interval default '7 days', timeout interval default '30 s'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_archive pgq.archive;
begin
    if owner is null or wait is null or timeout is null or timeout <= interval '0' then
        raise exception 'an archive needs an owner, a wait and a timeout longer than zero'
            using errcode = 'invalid_parameter_value',
                  hint = 'An owner that does not renew it within the timeout loses the archive.';
    end if;
    lock table pgq.archive in share row exclusive mode;
    select a.* into v_archive from pgq.archive a limit 1;
    if v_archive.until > pgq.now() and v_archive.owner <> archive_begin.owner then
        raise exception 'another process archives the log'
            using errcode = 'object_in_use',
                  detail = format('%s has it until %s, and renews it.', v_archive.owner,
                                  v_archive.until),
                  hint = 'Wait until it is done. What it has confirmed need not be copied again.';
    end if;
    perform pgq.archive_wait(archive_begin.wait);
    update pgq.archive a set owner = archive_begin.owner, until = pgq.now() + timeout;
end
$$;
comment on function pgq.archive_begin(text, interval, interval) is
    'Makes the caller''s process the only one that archives the log, and lets eras wait as '
    'pgq.archive_wait does. The owner repeats the call before the timeout ends. 55006 if another '
    'owner archives.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/archive_end.sql

-- Releases the ownership of the archive; eras still wait for their copies.
create or replace function pgq.archive_end(owner text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.archive a set owner = null, until = null where a.owner = archive_end.owner;
    return found;
end
$$;
comment on function pgq.archive_end(text) is
    'Ends the ownership that pgq.archive_begin acquired. Returns false if another owner archives.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/archive_next.sql

-- The oldest closed era that has not been archived. Unfinished messages are first copied forward
-- into the current era, so that the era does not change while it is read.
create or replace function pgq.archive_next(owner text default null)
returns table (era bigint, started_at timestamptz, slot int, messages bigint, low bigint,
               high bigint, unused text[], copy_id uuid, attempt int)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_era pgq.era;
    v_copy pgq.archive_copy;
    v_counts bigint[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the archive reads under READ COMMITTED only'
            using errcode = 'feature_not_supported',
                  hint = 'An older snapshot does not see the messages copied forward.';
    end if;
    perform pgq._lock('era');
    if exists (select from pgq.archive a
               where a.until > pgq.now() and a.owner is distinct from archive_next.owner)
    then
        raise exception 'another process archives the log'
            using errcode = 'object_in_use',
                  detail = (select format('%s has it until %s, and renews it.', a.owner, a.until)
                            from pgq.archive a limit 1),
                  hint = 'Wait until it is done. What it has confirmed need not be copied again.';
    end if;
    delete from pgq.archive_copy c
    where not exists (select from pgq.era e where e.number = c.era);
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
    perform pgq._copy_forward(v_era.slot, 'infinity');
    insert into pgq.archive_copy as c (era) values (v_era.number)
    on conflict on constraint archive_copy_pkey do update set attempt = c.attempt + 1
    returning c.* into v_copy;
    -- A loop over one row of counts, because a query that is assigned never runs in parallel.
    foreach v_counts slice 1 in array (
        select array[count(*), coalesce(sum(pgq._checksum(m)), 0)::bigint, min(m.id), max(m.id),
                     count(m.sender), count(m.recipient), count(m.reply_to),
                     count(m.correlation_id), count(m.group_key), count(m.expires_at),
                     count(m.dedup_key), count(m.deliver_at), count(m.publisher)]
        from pgq.message m where m.era = v_era.slot)
    loop
        update pgq.era e set messages = v_counts[1], checksum = v_counts[2]
        where e.number = v_era.number;
        return query
            select v_era.number, v_era.started_at, v_era.slot::int, v_counts[1], v_counts[3],
                   v_counts[4], array(
                       select u.name
                       from unnest('{sender,recipient,reply_to,correlation_id,group_key,expires_at,
                                     dedup_key,deliver_at,publisher}'::text[],
                                   v_counts[5:]) u (name, used)
                       where u.used = 0), v_copy.copy_id, v_copy.attempt;
    end loop;
end
$$;
comment on function pgq.archive_next(text) is
    'The oldest era of the log that is closed and not archived: its number, its slot (the column '
    'era of pgq.message), the number of messages to copy, and the columns that are null in all of '
    'them and need not be copied. All these messages are finished; unfinished ones were copied '
    'forward into the current era. No row: everything is archived. Each call begins a new '
    'attempt, and only the last attempt can be confirmed: write each attempt to its own path, '
    'named by copy_id and attempt. 55006 if another owner has begun with pgq.archive_begin.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/archive_wait.sql

-- Sets how long eras wait for the archive beyond their retention; null: not at all.
create or replace function pgq.archive_wait(wait interval) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if wait < interval '0'
       or wait is distinct from pgq._bounded(wait, pgq._limit('policy_years')) and wait is not null
    then
        raise exception 'wait must not be negative, and at most % years',
            pgq._limit('policy_years')
            using errcode = 'invalid_parameter_value',
                  hint = 'It is how long the log may grow while the archive does not run.';
    end if;
    lock table pgq.archive in share row exclusive mode;
    if wait is null then
        delete from pgq.archive;
        return;
    end if;
    update pgq.archive a set wait = archive_wait.wait;
    if not found then
        insert into pgq.archive (wait) values (archive_wait.wait);
    end if;
end
$$;
comment on function pgq.archive_wait(interval) is
    'Keeps each era of the log beyond its retention until pgq.archived has confirmed a copy of '
    'it, but no longer than the given time. Null: eras do not wait for an archive.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/archived.sql

-- Confirms the copy of an era, if it has the same number of messages and the same checksum.
create or replace function pgq.archived(
    era bigint, messages bigint, checksum bigint, attempt int default null,
    path text default null
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_era pgq.era;
    v_messages bigint;
begin
    perform pgq._lock('era');
    select e.* into v_era from pgq.era e
    where e.number = archived.era and e.number < pg_sequence_last_value('pgq.era_number')
      and e.emptied_at is null;
    if not found then
        raise exception 'era % is not there to be archived', archived.era
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'It was emptied, or is not closed yet. Let eras wait for the archive '
                      'with pgq.archive_wait.';
    end if;
    if attempt <> (select c.attempt from pgq.archive_copy c where c.era = archived.era) then
        raise exception 'attempt % to copy era % is not the last one', attempt, archived.era
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Another process copies the era, or has done so: leave it alone.';
    end if;
    -- The unchanged number of messages shows that nobody has published into the era since.
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
    insert into pgq.archive_era as e (era, started_at, messages, checksum, low, high, old, path,
                                      archived_at)
    select v_era.number, v_era.started_at, archived.messages, archived.checksum, min(m.id),
           max(m.id), coalesce(range_agg(int8range(m.id, m.id + 1)) filter (where m.id <= (
               select max(b.high) from pgq.archive_era b where b.era < v_era.number)), '{}'),
           archived.path, pgq.now()
    from pgq.message m where m.era = v_era.slot
    on conflict on constraint archive_era_pkey do update  -- confirmed once more
    set path = coalesce(excluded.path, e.path), archived_at = excluded.archived_at;
    update pgq.era e set archived_at = pgq.now() where e.number = archived.era;
end
$$;
comment on function pgq.archived(bigint, bigint, bigint, int, text) is
    'Confirms a copy of an era, so that the era may be truncated. XX001 unless the number of '
    'messages and the checksum are those of the era when pgq.archive_next returned it. The '
    'checksum is the sum over its messages of the first 8 hexadecimal digits of '
    'md5(id|topic|priority|headers|payload|published_at|sender|recipient|reply_to|correlation_id| '
    'group_key|dedup_key|publisher|deliver_at|expires_at). Times are in microseconds, but '
    'deliver_at is text, such as 2030-01-02T03:04:05.000000Z or infinity. From sender to '
    'deliver_at a value is written as = and its text, or as - if it is null; expires_at is - if '
    'it is null or infinite. With an attempt: 55000 unless it is the last attempt of '
    'pgq.archive_next. The path is stored for pgq.log_parts.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/begin_bindings.sql

-- Starts the subscriptions that roles have made with since or since_id: adds the messages of the
-- log, as pgq.subscribe does for the owner. Last in a slice of maintenance: publishers wait for it.
create or replace function pgq._begin_bindings() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
declare
    v_queue pgq.queue;
    v_binding pgq.binding;
begin
    if not exists (select from pgq.binding b where b.pending) then
        return;
    end if;
    lock table pgq.message in share row exclusive mode;
    for v_binding in
        update pgq.binding b set pending = false, created_at = pgq.now()
        where b.ctid = any (array(
            select c.ctid from pgq.binding c where c.pending for update skip locked))
        returning b.*
    loop
        perform pgq._rerouted();
        select q.* into v_queue from pgq.queue q where q.queue_id = v_binding.queue_id;
        perform pgq._backfill(v_queue, v_binding, v_binding.since, v_binding.since_id);
    end loop;
exception
    when lock_not_available then
        null;  -- a publisher is open for long: the next call tries again
end
$$;
comment on function pgq._begin_bindings() is
    'Starts the subscriptions that roles have made with since or since_id.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/choose_lanes.sql

-- Adds or drops one lane key of a queue that chooses them itself.
create or replace function pgq._choose_lanes(queue pgq.queue, now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_names text[] := array(select ltrim(k, '#') from unnest(queue.lane_keys) k);
    v_choice pgq.lane_choice;
begin
    -- Drop: no filter of the last day tests it, or all messages have the same value.
    select queue.queue_id, u.key, false, case when w.key is null
           then 'no filter has tested it for a day'
           else format('filters on it tested %s messages, and all messages have one value',
                       w.tested) end, _choose_lanes.now
    into v_choice
    from unnest(v_names, queue.lane_keys) u (key, kept)
    join pgq.lane_choice c on c.queue_id = queue.queue_id and c.key = u.key and c.used
    left join pgq._lane_wishes(queue, now) w on w.key = u.key
    where w.key is null and c.chosen_at < _choose_lanes.now - interval '1 day'
       or w.tested - w.matched >= pgq._limit('auto_tests') and u.kept not like '#%'
          and (select count(distinct l.label -> (array_position(v_names, u.key) - 1)) <= 1
               from pgq.lane l
               where l.queue_id = queue.queue_id and l.lane_keys = queue.lane_keys)
    order by w.key is null limit 1;
    if found then
        v_names := array_remove(array_remove(queue.lane_keys, v_choice.key), '#' || v_choice.key);
    elsif cardinality(v_names) < 4 then
        select queue.queue_id, w.key, true,
               format('filters on it tested %s messages for %s matches', w.tested, w.matched),
               _choose_lanes.now
        into v_choice
        from pgq._lane_wishes(queue, now) w
        where w.tested - w.matched >= pgq._limit('auto_tests') and w.tested >= 4 * w.matched
          and w.key <> all (v_names)
          and not exists (select from unnest(v_names) n
                          where starts_with(n, w.key || '.') or starts_with(w.key, n || '.'))
          and not exists (select from pgq.lane_choice c
                          where c.queue_id = queue.queue_id and c.key = w.key and not c.used
                            and c.chosen_at > _choose_lanes.now - interval '1 day')
        order by w.named > 0 desc, w.tested - w.matched desc, w.key limit 1;
        if not found then
            return false;
        end if;
        v_names := coalesce(queue.lane_keys, '{}') || v_choice.key;
    else
        return false;
    end if;
    if not pgq._set_lane_keys(queue, v_names) then
        return false;
    end if;
    insert into pgq.lane_choice values (v_choice.*)
    on conflict on constraint lane_choice_pkey do update
    set used = excluded.used, reason = excluded.reason, chosen_at = excluded.chosen_at;
    return true;
end
$$;
comment on function pgq._choose_lanes(pgq.queue, timestamptz) is
    'Adds or drops a lane key of a queue with lane_keys {auto}.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/drop_temporary.sql

-- Drops a queue whose process has ended. Clients create such queues for subscribers that are not
-- durable, name them "temporary.", and renew the stream "owner" of the queue while they run. Leaves
-- the rights alone, as a drop by a role does, so that maintenance waits for no change of rights.
create or replace function pgq._drop_temporary(queue pgq.queue, now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.stream s
    where s.queue_id = queue.queue_id and s.consumer = 'owner' and s.until <= now
    for update skip locked;
    if not found then
        return false;
    end if;
    delete from pgq.binding b where b.queue_id = queue.queue_id;
    delete from pgq.queue q where q.queue_id = queue.queue_id;
    perform pgq._rerouted();
    perform pgq._gc_queue(queue.queue_id);
    return true;
end
$$;
comment on function pgq._drop_temporary(pgq.queue, timestamptz) is
    'Drops a queue whose process has ended.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_anchors.sql

-- Creates the anchors that a restored dump does not have. Until then these filters are tested on
-- every message.
create or replace function pgq._gc_anchors(most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_binding pgq.binding;
    v_count int := 0;
begin
    for v_binding in
        select b.* from pgq.binding b
        where b.anchors > 0
          and not exists (select from pgq.anchor a where a.binding_id = b.binding_id)
        order by b.binding_id limit most for update skip locked
    loop
        begin
            perform pgq._set_anchors(v_binding);
        exception
            when sqlstate 'QU004' then
                -- a filter from a version with other limits
                update pgq.binding b set anchors = 0 where b.binding_id = v_binding.binding_id;
        end;
        v_count := v_count + 1;
    end loop;
    if v_count > 0 then
        perform pgq._rerouted();
    end if;
    return v_count;
end
$$;
comment on function pgq._gc_anchors(int) is 'Creates anchors that a restored dump does not have.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_bindings.sql

-- Adds up how often subscriptions matched, and counts it as traffic of their queues.
create or replace function pgq._gc_bindings(most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    with gone as (
        delete from pgq.binding_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.binding_hit i limit most for update skip locked))
        returning h.*
    ), added as (
        insert into pgq.binding_hit (binding_id, matches, last_at, added_up)
        select g.binding_id, sum(g.matches), max(g.last_at), true
        from gone g join pgq.binding b on b.binding_id = g.binding_id
        group by 1
    ), counted as (
        insert into pgq.traffic as t (queue_id, minute, event, size)
        select b.queue_id, date_trunc('minute', g.last_at), 'in', sum(g.matches)
        from gone g join pgq.binding b on b.binding_id = g.binding_id
        where not g.added_up group by 1, 2
        on conflict on constraint traffic_pkey do update set size = t.size + excluded.size
    )
    select count(*)::int into v_count from gone;
    return v_count;
end
$$;
comment on function pgq._gc_bindings(int) is 'Adds up the statistics of subscriptions.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_filters.sql

-- Adds up the statistics of filters, and deletes filters that were not used for a day.
create or replace function pgq._gc_filters(now timestamptz, most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    with gone as (
        delete from pgq.filter_hit h
        where h.ctid = any (array(
            select i.ctid from pgq.filter_hit i limit most for update skip locked))
        returning h.*
    ), added as (
        insert into pgq.filter_hit (filter_id, queue_id, claims, tested, matched, used_at, last_at)
        select g.filter_id, g.queue_id, sum(g.claims), sum(g.tested), sum(g.matched),
               max(g.used_at), max(g.last_at)
        from gone g group by 1, 2
    )
    select count(*)::int into v_count from gone;

    delete from pgq.filter f
    where f.created_at < _gc_filters.now - interval '1 day'
      and not exists (
          select from pgq.filter_hit h
          where h.filter_id = f.filter_id and h.used_at > _gc_filters.now - interval '1 day');
    -- The statistics of deleted filters still count for their queue, under filter_id 0.
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
    -- Claims use the newest scan cursor of a filter: delete the others.
    delete from pgq.filter_scan s
    where exists (select from pgq.filter_scan n
                  where n.filter_id = s.filter_id and n.queue_id = s.queue_id
                    and (n.noted_at, n.ctid) > (s.noted_at, s.ctid));
    return v_count;
end
$$;
comment on function pgq._gc_filters(timestamptz, int) is
    'Adds up the statistics of filters, and deletes unused filters.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_flow.sql

-- Deletes token buckets that are full, and the lock rows of lanes without leased messages: a lane
-- without a row gets a new one. Skips rows that claims have locked.
create or replace function pgq._gc_flow(now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.flow f
    where f.ctid = any (array(
        select b.ctid from pgq.flow b
        where case when b.full_at > 'epoch' then b.full_at <= _gc_flow.now
              else b.lane not between pgq._shard_lane(0) and pgq._shard_lane(15)
                   and not exists (select from pgq.lease l
                                   where l.queue_id = b.queue_id and l.flow = b.lane)
                   and not exists (select from pgq.flow c
                                   where c.queue_id = b.queue_id and c.lane = b.lane
                                     and c.full_at > 'epoch')
              end
        for update skip locked));
end
$$;
comment on function pgq._gc_flow(timestamptz) is
    'Deletes token buckets that are full, and unused lock rows of lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_lanes.sql

-- Removes lanes that are no longer used, and sorts a bounded number of messages into lanes: those
-- of rows without a lane, from before the queue had lanes, and of lanes of former keys. Returns
-- whether more may be left.
--
-- A lane must not be deleted while a publisher that has found it is still to insert its row. So a
-- call first hides the lane from publishers, a later call records its transaction id (_mark_lanes),
-- and a call after all older transactions have ended deletes the lane, unless one of them used it.
create or replace function pgq._gc_lanes(queue pgq.queue) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_row pgq.ready;
    v_stale int[];
    v_rank bigint;
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

    if queue.lane_keys is not null then
        v_stale := array(
            select l.lane_id from pgq.lane l
            where l.queue_id = queue.queue_id and l.lane_keys <> queue.lane_keys);
        for v_row in
            delete from pgq.ready d
            where d.ctid = any (array(
                select r.ctid from pgq.ready r
                where r.ctid = any (pgq._unsorted_rows(queue, v_stale)) for update skip locked))
            returning d.*
        loop
            perform pgq._enqueue(
                queue, v_row.ids, v_row.attempt, v_row.failures, v_row.grouped,
                back => pgq._rank_is_back(v_row.rank), suspect => v_row.suspect);
            v_done := v_done + 1;
            if v_row.lane_id is null then
                v_rank := greatest(v_rank, v_row.rank);
            end if;
        end loop;
    end if;
    if queue.unlaned_rows and v_rank is null then
        -- All transactions before unlaned_xid have ended: nobody can add a row without a lane.
        update pgq.queue q set unlaned_rows = false, unlaned_xid = null, unlaned_rank = null
        where queue.lane_keys is not null and q.ctid = any (array(
            select p.ctid from pgq.queue p
            where p.queue_id = queue.queue_id
              and p.unlaned_xid <= pg_snapshot_xmin(pg_current_snapshot())
              and not exists (select from pgq.ready r
                              where r.queue_id = p.queue_id and r.lane_id is null)
            for update skip locked));
    end if;
    if queue.unlaned_rank is distinct from v_rank then
        update pgq.queue q set unlaned_rank = v_rank
        where q.ctid = any (array(
            select p.ctid from pgq.queue p
            where p.queue_id = queue.queue_id and p.unlaned_rows for update skip locked));
    end if;
    return v_done > 0;
end
$$;
comment on function pgq._gc_lanes(pgq.queue) is
    'Removes lanes that are no longer used, and sorts messages into lanes.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_orphans.sql

-- Deletes rows of dropped queues that concurrent transactions have left, unaware of drop_queue.
create or replace function pgq._gc_orphans() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id int;
begin
    for v_queue_id in
        -- A loose index scan: from one queue to the next, however many rows a queue has.
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
            select min(d.queue_id) as queue_id from pgq.letter d
            union all
            select (select min(d.queue_id) from pgq.letter d where d.queue_id > p.queue_id)
            from dead p where p.queue_id is not null
        ), headed as (
            select min(h.queue_id) as queue_id from pgq.group_head h
            union all
            select (select min(h.queue_id) from pgq.group_head h where h.queue_id > p.queue_id)
            from headed p where p.queue_id is not null
        ), keyed as (
            select min(d.queue_id) as queue_id from pgq.dedup d
            union all
            select (select min(d.queue_id) from pgq.dedup d where d.queue_id > p.queue_id)
            from keyed p where p.queue_id is not null
        )
        select i.queue_id
        from (
            select p.queue_id from present p
            union select p.queue_id from planned p
            union select p.queue_id from dead p
            union select p.queue_id from headed p
            union select p.queue_id from keyed p
            union select distinct l.queue_id from pgq.lease l
            union select distinct l.queue_id from pgq.lane l
            union select distinct c.queue_id from pgq.lane_choice c
            union select distinct w.queue_id from pgq.waiter w
            union select s.queue_id from pgq.stream s
            union select l.queue_id from pgq.lineage l
            union select r.queue_id from pgq.relay r
        ) i
        where i.queue_id is not null
          and not exists (select from pgq.queue q where q.queue_id = i.queue_id)
    loop
        perform pgq._gc_queue(v_queue_id);
    end loop;
end
$$;
comment on function pgq._gc_orphans() is 'Deletes rows of dropped queues.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_outcomes.sql

-- Adds up the counters of outcomes, and deletes those of dropped queues.
create or replace function pgq._gc_outcomes(most int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    with gone as (
        delete from pgq.outcome o
        where o.ctid = any (array(
            select i.ctid from pgq.outcome i limit most for update skip locked))
        returning o.*
    ), added as (
        insert into pgq.outcome (queue_id, event, reason, size)
        select g.queue_id, g.event, g.reason, sum(g.size)
        from gone g join pgq.queue q on q.queue_id = g.queue_id
        group by 1, 2, 3
    )
    select count(*)::int into v_count from gone;
    return v_count;
end
$$;
comment on function pgq._gc_outcomes(int) is 'Adds up the counters of outcomes.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/gc_tables.sql

-- Deletes rows that are no longer needed, a bounded number of each kind; returns whether there may
-- be more.
create or replace function pgq._gc_tables(now timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_most constant int := pgq._limit('maintain_messages');
    v_counts int[] := '{}';
    v_count int;
begin
    delete from pgq.result_waiter w where w.until < _gc_tables.now;
    delete from pgq.waiter w where w.until < _gc_tables.now - interval '1 min';
    delete from pgq.handled h
    where h.ctid = any (array(
        select i.ctid from pgq.handled i where i.handled_at < _gc_tables.now - interval '7 days'
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count;
    delete from pgq.staged s
    where s.ctid = any (array(
        select i.ctid from pgq.staged i where i.staged_at < _gc_tables.now - interval '1 day'
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count;
    delete from pgq.dedup d
    where d.ctid = any (array(
        select e.ctid from pgq.dedup e where e.until <= _gc_tables.now
        limit v_most for update skip locked));
    get diagnostics v_count = row_count;
    v_counts := v_counts || v_count || pgq._gc_bindings(v_most) || pgq._gc_outcomes(v_most)
        || pgq._gc_filters(_gc_tables.now, v_most);
    -- Bound the routing cache: topics that are not published again must not fill it.
    if (select count(*) > 20000 from pgq.route) then
        delete from pgq.route r
        where r.ctid = any (array(
            select s.ctid from pgq.route s limit 10000 for update skip locked));
    end if;
    v_count := pgq._gc_anchors(pgq._limit('gc_anchors'));
    return v_most <= any (v_counts) or v_count >= pgq._limit('gc_anchors');
end
$$;
comment on function pgq._gc_tables(timestamptz) is 'Deletes rows that are no longer needed.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/lane_wishes.sql

-- How many messages filters have tested in a queue under its current lane keys, by the fields that
-- could prune these tests. A field prunes best if the filter names its values (named).
create or replace function pgq._lane_wishes(queue pgq.queue, now timestamptz)
returns table (key text, tested bigint, matched bigint, named bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select k.key, sum(f.tested)::bigint, sum(f.matched)::bigint,
               count(*) filter (where pgq._filter_values(f.tree, k.key) is not null)
        from (
            select sum(h.tested) as tested, sum(h.matched) as matched,
                   pgq._filter_parse(d.document) as tree
            from pgq.filter_hit h join pgq.filter d on d.filter_id = h.filter_id
            where h.queue_id = queue.queue_id and h.used_at > _lane_wishes.now - interval '1 day'
              and d.lane_keys is not distinct from queue.lane_keys
            group by d.filter_id
            order by 1 desc limit 100
        ) f
        cross join lateral pgq._filter_fields(f.tree) k (key)
        where exists (
            select from pgq._filter_project(f.tree, array[k.key]) w where w.tree <> 'true')
        group by 1;
end
$$;
comment on function pgq._lane_wishes(pgq.queue, timestamptz) is
    'How many messages filters have tested in a queue, by the fields that could prune the tests.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/maintain.sql

-- One slice of maintenance, about a second; returns whether more is left. Does nothing while
-- another session runs one.
create or replace function pgq._maintain() returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_deadline timestamptz := clock_timestamp() + interval '1 s';
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_more boolean := false;
    v_moved int;
    v_count bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise warning 'the log is not rotated under isolation level %',
            current_setting('transaction_isolation')
            using hint = 'Call pgq.maintain() under READ COMMITTED, or the log grows.';
    end if;
    perform pgq._mark_lanes();  -- before this transaction has an id
    if not pgq._try_lock('maintain') then
        return false;
    end if;
    perform pgq._count_traffic(v_now);
    while pgq._run_schedules(v_now) > 0 and clock_timestamp() < v_deadline loop
        null;
    end loop;
    for v_queue in select q.* from pgq.queue q order by q.queue_id loop
        continue when starts_with(v_queue.name, 'temporary.')
            and pgq._drop_temporary(v_queue, v_now);
        -- This index scan marks the entries of dead rows that an earlier slice has left, so that no
        -- claim has to read them.
        perform from pgq.ready r where r.queue_id = v_queue.queue_id order by r.rank limit 1;
        v_count := 0;
        loop
            v_moved := pgq._upkeep(v_queue, null, null, v_now, pgq._limit('maintain_rows'),
                                   pgq._limit('maintain_messages'));
            exit when v_moved = 0;
            v_count := v_count + v_moved;
            if clock_timestamp() > v_deadline then
                v_more := true;
                exit;
            end if;
        end loop;
        v_more := v_more or v_count >= pgq._limit('maintain_messages') / 10;
        v_more := pgq._renew_rows(v_queue) or v_more;
        if v_queue.auto_lanes then
            v_more := pgq._choose_lanes(v_queue, v_now) or v_more;
        end if;
        if v_queue.lane_keys is not null
           or exists (select from pgq.lane l where l.queue_id = v_queue.queue_id)
        then
            v_more := pgq._gc_lanes(v_queue) or v_more;
        end if;
    end loop;
    v_more := pgq._gc_tables(v_now) or v_more;
    perform pgq._gc_flow(v_now);
    perform pgq._gc_orphans();
    perform pgq._gc_rights();
    if exists (select from pgq.queue_right r
               where not exists (select from pgq.queue q where q.queue_id = r.queue_id))
       and pgq._try_lock('right')
    then
        perform pgq._gc_access();
    end if;
    -- After a restore or pg_upgrade: a dump has no privileges of row types.
    if exists (select from pgq.queue_right)
       and exists (select from pg_type t
                   where t.typnamespace = 'pgq'::regnamespace and t.typtype = 'c'
                     and has_type_privilege('public', t.oid, 'usage'))
       and pgq._try_lock('right')
    then
        perform pgq._close_types();
    end if;
    v_more := pgq._rotate(v_now, v_deadline) or v_more;
    update pgq.maintenance m set last_at = v_now;
    -- routed_at is later than the snapshot that reads the version: newer transactions see it too.
    update pgq.maintenance m set routing_version = r.version, routed_at = clock_timestamp()
    from (select sum(s.version) as version from pgq.routing s) r
    where m.routing_version is distinct from r.version;
    if current_setting('transaction_isolation') = 'read committed' then
        perform pgq._begin_bindings();
    end if;
    return v_more;
end
$$;
comment on function pgq._maintain() is
    'Runs one slice of maintenance; returns whether more is left.';

-- A procedure that commits can neither set search_path nor be SECURITY DEFINER, so all names are
-- qualified. Inside a transaction or a function it cannot commit, so it does one slice.
create or replace procedure pgq.maintain(until_done boolean default true)
language plpgsql
as $$
declare
    v_context pg_catalog.text;
    v_alone pg_catalog.bool;
begin
    get diagnostics v_context = pg_context;  -- a line for each function that has called this one
    v_alone := pg_catalog.strpos(v_context, E'\n') operator(pg_catalog.=) 0
        and pg_catalog.statement_timestamp()
            operator(pg_catalog.=) pg_catalog.transaction_timestamp();
    -- A minute at most: under traffic there is always something left for the next call.
    for v_slice in 1 .. 60 loop
        exit when not pgq._maintain() or not v_alone or not until_done;
        commit;
    end loop;
end
$$;
comment on procedure pgq.maintain(boolean) is
    'Runs maintenance: expired leases, due and expired messages, lanes, statistics, and the '
    'rotation of the log, which only this procedure does. It works in slices of about a second, '
    'each a transaction, until nothing is left. Call it about every minute, from a consumer, the '
    'command line or pg_cron, as a statement of its own. With until_done => false, or inside a '
    'transaction, it runs one slice. Without it queues still work, but the log grows.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/mark_lanes.sql

-- Records which transactions may still use what garbage collection is to remove: lanes that an
-- earlier call has hidden, and rows without a lane in a queue that now has lane keys.
--
-- A publisher gets its transaction id before it searches for a lane. So a publisher that does not
-- see the change yet has an older id than this transaction, provided that this one gets it here.
-- (The xmax of a snapshot would not do: it follows the latest id that has ended, and transactions
-- with larger ids may run.)
create or replace function pgq._mark_lanes() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        return;
    end if;
    -- Skips a queue that is being changed: the change would be younger than the id.
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
    'Records which transactions may still use lanes that are to be removed.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/renew_rows.sql

-- A dump that was restored into a younger cluster brings transaction ids from the future, which
-- would count as new for ever. Gives such rows the id of this transaction, a bounded number;
-- returns whether more may be left.
create or replace function pgq._renew_rows(queue pgq.queue) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_next xid8 := pg_snapshot_xmax(pg_current_snapshot());
    v_count int;
begin
    if not exists (select from pgq.ready r
                   where r.queue_id = queue.queue_id and r.xid > v_next offset 0)
    then
        return false;
    end if;
    v_next := pg_current_xact_id();
    update pgq.lane l set idle = '0' where l.queue_id = queue.queue_id and l.idle > v_next;
    update pgq.queue q set unlaned_xid = null
    where q.queue_id = queue.queue_id and q.unlaned_xid > v_next;
    with gone as (
        delete from pgq.ready d
        where d.ctid = any (array(
            select r.ctid from pgq.ready r
            where r.queue_id = queue.queue_id and r.xid > v_next
            limit pgq._limit('maintain_messages') for update skip locked))
        returning d.*
    ), added as (
        insert into pgq.ready (queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped,
                               suspect, hash, unmatched_by, failures, ids)
        select g.queue_id, g.lane_id, g.rank, g.attempt, g.size, v_next, g.expires_at, g.grouped,
               g.suspect, g.hash, g.unmatched_by, g.failures, g.ids
        from gone g
    )
    select count(*)::int into v_count from gone;
    return v_count >= pgq._limit('maintain_messages');
end
$$;
comment on function pgq._renew_rows(pgq.queue) is
    'Gives rows with transaction ids from the future the id of this transaction.';
$pgq_script$;
    execute $pgq_script$
-- sql/70_maintain/set_lane_keys.sql

-- Changes the lane keys of a queue during maintenance. Does nothing while another transaction
-- changes the queue.
create or replace function pgq._set_lane_keys(queue pgq.queue, lane_keys text[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.queue q
    set lane_keys = nullif(_set_lane_keys.lane_keys, '{}'), lanes_full = false,
        unlaned_rows = q.unlaned_rows or q.lane_keys is null, unlaned_xid = null,
        unlaned_rank = null
    where q.ctid = any (array(
        select p.ctid from pgq.queue p
        where p.queue_id = queue.queue_id and p.auto_lanes
          and p.lane_keys is not distinct from queue.lane_keys for update skip locked));
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq._set_lane_keys(pgq.queue, text[]) is
    'Changes the lane keys of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/00_metric.sql

-- The metrics of pgq: names in the style of Prometheus, and their meaning. A counter only grows,
-- until its queue is dropped or the database is restored without it; a value that can shrink, such
-- as a count over the journal, is a gauge.
create or replace view pgq._metric as
select m.name, m.kind, m.help
from (values
    ('pgq_info', 'gauge', 'Always 1; the label says the version of the installed code.'),
    ('pgq_in_recovery', 'gauge', '1 on a standby.'),
    -- queues
    ('pgq_ready_messages', 'gauge', 'Messages that can be claimed.'),
    ('pgq_scheduled_messages', 'gauge', 'Delayed messages and retries that are not due yet.'),
    ('pgq_leased_messages', 'gauge', 'Messages in flight: claimed and not ended.'),
    ('pgq_waiting_messages', 'gauge',
        'Messages that wait for their turn in ordering groups; 10001 means more.'),
    ('pgq_dead_messages', 'gauge', 'Dead letters.'),
    ('pgq_counts_exact', 'gauge',
        '0 if a queue has so many rows of state that its counts are estimates from a sample.'),
    ('pgq_oldest_ready_seconds', 'gauge',
        'Age of the oldest message that can be claimed; 0 if there is none.'),
    ('pgq_oldest_dead_seconds', 'gauge',
        'How long ago the oldest dead letter failed; 0 if there is none.'),
    ('pgq_paused', 'gauge', '1 while claims return nothing because the queue is paused.'),
    ('pgq_published_messages_per_second', 'gauge',
        'Messages that the queue received, over the last one to two minutes.'),
    ('pgq_acked_messages_per_second', 'gauge',
        'Acknowledged messages over the last one to two minutes; missing if the queue''s journal '
        'records failures only.'),
    ('pgq_failed_messages_per_second', 'gauge',
        'Messages refused, buried or timed out, over the last one to two minutes.'),
    ('pgq_leases', 'gauge', 'Leases; an estimate if there are many.'),
    ('pgq_oldest_lease_seconds', 'gauge',
        'Age of the oldest lease, from a sample if there are many; 0 if there is none.'),
    ('pgq_expired_leases', 'gauge',
        'Leases past their end that no claim and no maintain() has taken back yet.'),
    ('pgq_unending_leases', 'gauge', 'Named leases that never expire.'),
    ('pgq_unending_leased_messages', 'gauge', 'Messages in named leases that never expire.'),
    ('pgq_oldest_unending_lease_seconds', 'gauge',
        'Age of the oldest named lease that never expires; 0 if there is none.'),
    ('pgq_lanes', 'gauge', 'Lanes: combinations of values of the queue''s lane keys.'),
    ('pgq_lanes_full', 'gauge', '1 if new values share the overflow lane: too many lanes.'),
    ('pgq_waiters', 'gauge', 'Consumers that sleep until they are notified.'),
    ('pgq_retries_total', 'counter', 'Messages that failed and are retried.'),
    ('pgq_lease_expiries_total', 'counter', 'Messages taken back from expired leases.'),
    ('pgq_dead_letters_total', 'counter', 'Messages that became dead letters, by reason.'),
    ('pgq_expired_messages_total', 'counter', 'Messages that expired before they were delivered.'),
    ('pgq_released_messages_total', 'counter',
        'Messages that consumers released without a failure.'),
    ('pgq_replayed_messages_total', 'counter', 'Dead letters that were replayed.'),
    ('pgq_discarded_messages_total', 'counter', 'Dead letters that were discarded.'),
    ('pgq_cancelled_messages_total', 'counter', 'Messages that were cancelled or purged.'),
    ('pgq_moved_messages_total', 'counter', 'Messages that were moved to another queue.'),
    ('pgq_filter_claims_total', 'counter',
        'Claims with a filter that tested or took messages.'),
    ('pgq_filter_tested_messages_total', 'counter', 'Messages that filters of claims tested.'),
    ('pgq_filter_matched_messages_total', 'counter', 'Messages that filters of claims took.'),
    ('pgq_subscription_matches_total', 'counter', 'Messages that a subscription received.'),
    ('pgq_findings', 'gauge',
        'Problems that pgq.findings() returns, by queue (empty: none), finding and severity.'),
    -- the database
    ('pgq_published_messages_total', 'counter',
        'Message ids assigned, for all topics; rolled back transactions are included.'),
    ('pgq_claims_total', 'counter',
        'Lease tokens assigned, for all queues; restarts after some millions.'),
    ('pgq_era', 'gauge', 'The number of the current era.'),
    ('pgq_era_bytes', 'gauge', 'Size of a slot of the log, or of its journal, with indexes.'),
    ('pgq_era_age_seconds', 'gauge', 'How long ago the era in a slot began; 0 if it is empty.'),
    ('pgq_era_overdue_seconds', 'gauge',
        'How long the truncation of a slot is overdue: a transaction blocks it, an archive is '
        'late, or nobody calls maintain().'),
    ('pgq_retention_seconds', 'gauge', 'Retention of the log: the longest of any queue.'),
    ('pgq_table_bytes', 'gauge', 'Size of a table of state, with indexes.'),
    ('pgq_table_dead_rows', 'gauge', 'Rows of a table that vacuum has still to remove.'),
    ('pgq_staged_messages', 'gauge',
        'Messages staged and neither published nor discarded; an estimate if there are many.'),
    ('pgq_oldest_staged_seconds', 'gauge',
        'Age of the oldest staged message, from a sample if there are many; its writer may never '
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
comment on view pgq._metric is 'The metrics of pgq, with their kinds and help texts.';
revoke all on table pgq._metric from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/00_visible_queue.sql

-- The queues that the current user may consume. In a view current_user is the role that runs the
-- query. A role that may truncate the tables sees all queues.
create or replace view pgq._visible_queue with (security_barrier) as
select q.queue_id, q.name
from pgq.queue q
where has_table_privilege('pgq.queue'::regclass, 'truncate')
   or exists (
       select from pgq.queue_right r
       where r.queue_id = q.queue_id and r.right in ('consume', 'admin')
         and pg_has_role(r.role, 'usage'));
comment on view pgq._visible_queue is 'The queues that the current user may consume.';
revoke all on table pgq._visible_queue from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/01_lane_text.sql

-- The values of a lane as readable text; null: the overflow lane.
create or replace function pgq._lane_text(lane pgq.lane) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(jsonb_object_agg(u.key, lane.label -> (u.i - 1)::int) filter (
            where lane.label -> (u.i - 1)::int <> '[]'), '{}')::text
        from unnest(lane.lane_keys) with ordinality u (key, i)
        where lane.label is not null
        having count(*) > 0);
end
$$;
comment on function pgq._lane_text(pgq.lane) is 'The values of a lane as readable text.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/02_explain_values.sql

-- Fields and values of a filter that none of the newest messages of a queue has, with suggestions.
-- Reads 10,000 messages of the log at most.
create or replace function pgq._explain_values(queue pgq.queue, tree jsonb) returns setof text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_field text;
    v_path text[];
    v_values jsonb;
    v_seen record;
    v_near text;
begin
    for v_field in select f from pgq._filter_fields(tree) f order by 1 loop
        v_path := string_to_array(v_field, '.');
        v_values := pgq._filter_values(tree, v_field);
        continue when v_values is not null and v_values @> '[null]';
        select count(*) as messages, count(*) filter (where v.value <> '[]') as present,
               bool_or(v.value = '{}' or v_values is null
                       or exists (select from jsonb_array_elements(v_values) e (value)
                                  where e.value = v.value)) as found,
               jsonb_agg(distinct v.value) filter (
                   where v.value not in ('{}', '[]', 'null')) as "values",
               jsonb_agg(distinct p.parent) filter (
                   where jsonb_typeof(p.parent) = 'object') as parents
        into v_seen
        from (
            select m.* from (
                select e.* from pgq.message e order by e.id desc limit 10000) m
            where exists (select from pgq.binding b
                          where b.queue_id = queue.queue_id
                            and (b.regex is null and b.pattern = m.topic or m.topic ~ b.regex))
            limit 1000
        ) m
        cross join lateral (select coalesce(nullif(
            pgq._lane_value(m::pgq.message, v_field),
            case when v_field like 'msg.%' then 'null'::jsonb end), '[]') as value) v
        cross join lateral (select case
            when v_field not like '%.%' then m.headers
            when v_field like 'payload.%' then m.payload #> v_path[2 : cardinality(v_path) - 1]
            end as parent) p;
        continue when v_seen.messages = 0 or v_seen.found and v_seen.present > 0;
        v_near := null;
        if v_seen.present = 0 then
            select k.key into v_near
            from jsonb_array_elements(v_seen.parents) o (parent)
            cross join lateral jsonb_object_keys(o.parent) k (key)
            where pgq._is_near(k.key, v_path[cardinality(v_path)]) limit 1;
            return next format('none of the last %s messages has the field %s', v_seen.messages,
                v_field) || coalesce('; did you mean ' || (
                    select array_to_string(v_path[: cardinality(v_path) - 1] || v_near, '.')
                    where v_near is not null) || '?', '');
        else
            select s.value::text into v_near
            from jsonb_array_elements(v_seen."values") s (value),
                 jsonb_array_elements(v_values) w (value)
            where pgq._is_near(s.value #>> '{}', w.value #>> '{}') limit 1;
            return next format('none of the last %s messages has had such a value in %s',
                v_seen.messages, v_field) || coalesce('; did you mean ' || v_near || '?', '');
        end if;
    end loop;
end
$$;
comment on function pgq._explain_values(pgq.queue, jsonb) is
    'Fields and values of a filter that no recent message has, with suggestions.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/check.sql

-- Verifies the invariants of the stored state; every row returned is a defect. All parts read with
-- the snapshot of the caller's statement, because they are stable.
create or replace function pgq."check"() returns table (problem text, queue text, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select c.problem, coalesce(q.name, 'number ' || c.queue_id), c.detail
        from (
            select * from pgq._check_sets()
            union all select * from pgq._check_log()
            union all select * from pgq._check_ready()
            union all select * from pgq._check_leases()
            union all select * from pgq._check_groups()
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
            where e.archived_at is not null
              and e.number >= pg_sequence_last_value('pgq.era_number')
            union all
            select 'there is more than one archive', null, format('%s rows', count(*))
            from pgq.archive a having count(*) > 1
            union all
            select 'a right is void: its role is gone or may not use pgq', r.queue_id,
                   format('%s to %s', r.right, r.role)
            from pgq.queue_right r
            where not exists (
                select from pg_namespace n cross join lateral aclexplode(n.nspacl) a
                where n.nspname = 'pgq' and a.grantee = r.role and a.privilege_type = 'USAGE')
        ) c
        left join pgq.queue q on q.queue_id = c.queue_id;
end
$$;
comment on function pgq."check"() is
    'Verifies the invariants of the stored state: each queue that receives a message holds it in '
    'one place or has ended it; sets, leases, groups and lanes are consistent; no row is '
    'orphaned. Returns a row for each defect. Reads all tables: for tests and diagnosis.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/check_groups.sql

-- Invariants of ordering groups: each has a head that can be delivered, and nothing overtakes it.
create or replace function pgq._check_groups()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select distinct 'a group has a line and no head', g.queue_id,
               format('group %s', g.group_key)
        from pgq.group_line g
        where not exists (select from pgq.group_head h
                          where h.queue_id = g.queue_id and h.group_key = g.group_key)
        union all
        select 'the head of a group is nowhere', g.queue_id,
               format('group %s, message %s', g.group_key, g.message_id)
        from (
            select g.queue_id,
                   range_agg(int8range(g.message_id, g.message_id + 1))
                   - coalesce((select range_agg(h.ids) from pgq._held() h
                               where h.queue_id = g.queue_id and h.place <> 'group_line'), '{}')
                   - coalesce((select range_agg(int8range(s.message_id, s.message_id + 1))
                               from pgq.group_stall s where s.queue_id = g.queue_id), '{}')
                   as missing
            from pgq.group_head g group by g.queue_id
        ) t
        join pgq.group_head g on g.queue_id = t.queue_id and t.missing @> g.message_id
        where t.missing <> '{}'
        union all
        select 'a message of a group is out of turn', x.queue_id, format('message %s', m.id)
        from (
            select h.queue_id, h.lease_id, generate_series(lower(i), upper(i) - 1) as id
            from pgq._held() h cross join unnest(h.ids) i
            where h.place in ('ready', 'scheduled', 'lease')
        ) x
        join pgq.message m on m.id = x.id
        where m.group_key is not null
          -- A lease may hold a run of a group: the head and others behind it.
          and not exists (select from pgq.group_head h
                          left join pgq.lease l on l.lease_id = x.lease_id and l.runs
                              and l.ids @> m.id and l.ids @> h.message_id and m.id > h.message_id
                          where h.queue_id = x.queue_id and h.group_key = m.group_key
                            and (h.message_id = m.id or l.lease_id is not null));
end
$$;
comment on function pgq._check_groups() is 'Verifies that ordering groups can advance in order.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/check_leases.sql

-- Invariants of leases: a lease id or key belongs to one claim, and its group flag is right.
create or replace function pgq._check_leases()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        -- The parts of one claim differ only in what they hold; a lease with a part 0 has no other.
        select 'a token belongs to two leases', min(l.queue_id),
               format('lease %s, %s parts, held by %s', l.lease_id, count(*),
                      string_agg(distinct coalesce(l.holder, 'nobody'), ', '))
        from pgq.lease l group by l.lease_id
        having count(distinct (l.queue_id, l.claimed_at, l.key, l.holder, l.client)) > 1
            or count(*) > 1 and min(l.part) = 0 or count(*) > count(distinct l.part)
        union all
        select distinct 'the group flag of a lease is wrong', l.queue_id,
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
        where substring(l.key from '[0-9]+$')::bigint <= s.batch;
end
$$;
comment on function pgq._check_leases() is 'Verifies that a lease id or key is of one claim.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/check_log.sql

-- Invariants of the log: each message is in it once, and each queue that receives the message holds
-- it or has ended it. The second is checked for queues that record every end (journal), as far back
-- as the journal reaches, and for transactions that began after maintain() recorded the bindings.
-- Left out: messages with a dedup key, which may be duplicates; messages that are stored but not
-- delivered; and messages whose published_at, set by the owner, is in the future.
create or replace function pgq._check_log()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_oldest bigint := (select min(e.number) from pgq.era e where e.emptied_at is null);
    v_since timestamptz;
begin
    return query
        select 'a message is in the log twice', null::int, format('message %s', m.id)
        from pgq.message m group by m.id having count(*) > 1;
    -- An end is recorded in the era that was current then, which may have begun a moment after its
    -- started_at: so the journal is complete from the second era on.
    select greatest(n.routed_at, case
               when v_oldest is null or v_oldest = 0 then '-infinity'
               else coalesce((select e.started_at from pgq.era e where e.number = v_oldest + 1),
                             'infinity') end)
    into v_since
    from pgq.maintenance n
    where n.routing_version = (select sum(s.version) from pgq.routing s);
    if v_since is null then
        return;
    end if;
    return query
        with received as (
            select b.queue_id, range_agg(int8range(m.id, m.id + 1)) as ids
            from pgq.message m
            join pgq.binding b on (b.regex is null and b.pattern = m.topic) or m.topic ~ b.regex
            join pgq.queue q on q.queue_id = b.queue_id and q.mode = 'queue' and q.journal = 'all'
            where m.published_at >= v_since and m.published_at <= clock_timestamp()
              and m.dedup_key is null and not b.pending
              and m.deliver_at is distinct from 'infinity'
              and (b.path is null or b.filter::text !~ E'"\\$now"'
                   and pgq._matches(b.path, b.scope, m, 1, m.published_at))
            group by 1
        ), known as (
            select h.queue_id, range_agg(h.ids) as ids
            from (
                select h.queue_id, h.ids from pgq._held() h
                union all
                select j.queue_id, j.ids from pgq.journal j
            ) h
            group by 1
        )
        select 'a message is nowhere in a queue that receives it', r.queue_id,
               format('messages %s', r.ids - coalesce(k.ids, '{}'))
        from received r left join known k on k.queue_id = r.queue_id
        where r.ids - coalesce(k.ids, '{}') <> '{}';
end
$$;
comment on function pgq._check_log() is
    'Verifies that each message is in the log once, and in every queue that receives it.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/check_ready.sql

-- Invariants of ready rows: rank, priority, expiry and lane are those of their messages.
create or replace function pgq._check_ready()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select 'the rank of a ready row differs from that of its lowest id', r.queue_id,
               format('rank %s, ids %s', r.rank, r.ids)
        from pgq.ready r where pgq._rank_id(r.rank) <> lower(r.ids)
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
        select 'a queue has limits and no lock, or is not marked', q.queue_id, q.name
        from pgq.queue q
        where q.limited <> exists (select from pgq.queue_limit l where l.queue_id = q.queue_id)
           or q.limited and not exists (
               select from pgq.flow f
               where f.queue_id = q.queue_id and f.lane = 16 and f.full_at = 'epoch')
        union all
        select 'a message is in a lane with other values', r.queue_id,
               format('message %s, lane %s', m.id, l.label)
        from pgq.ready r join pgq.lane l on l.lane_id = r.lane_id
        cross join unnest(r.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.label <> pgq._lane_label(m, l.lane_keys)
           or r.hash is distinct from case when pgq._hashed_key(l.lane_keys) is not null then
               pgq._lane_hash(pgq._lane_value(m, substr(
                   l.lane_keys[pgq._hashed_key(l.lane_keys)], 2))) end;
end
$$;
comment on function pgq._check_ready() is 'Verifies that ready rows are where claims find them.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/check_sets.sql

-- Invariants of id sets: their messages are in the log, and each is in one place only.
create or replace function pgq._check_sets()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        with held as materialized (
            select * from pgq._held()
        ), queue as materialized (
            select h.queue_id, sum(h.size) as size, range_agg(h.ids) as ids,
                   range_agg(h.ids) filter (where h.place <> 'dead_letter') as needed
            from held h group by h.queue_id
        ), missing as materialized (
            select q.queue_id, q.needed - coalesce((
                       select range_agg(int8range(m.id, m.id + 1)) from unnest(q.needed) r
                       join pgq.message m on m.id >= lower(r) and m.id < upper(r)), '{}') as ids
            from queue q
        )
        select 'a set is empty', h.queue_id, h.place
        from held h where isempty(h.ids)
        union all
        select 'a set has another size than it says', h.queue_id,
               format('%s %s: %s', h.place, h.ids, h.size)
        from held h where h.size <> pgq._set_size(h.ids)
        union all
        select 'a message is in two places', q.queue_id,
               format('%s messages, once each: %s', q.size, pgq._set_size(q.ids))
        from queue q where q.size <> pgq._set_size(q.ids)
        union all
        select case h.place when 'lease' then 'a lease has ids of no message'
               else 'a set has ids of no message' end,
               h.queue_id, concat_ws(' ', h.place, h.lease_id || ':', h.ids * m.ids)
        from missing m join held h on h.queue_id = m.queue_id and h.ids && m.ids
        where m.ids <> '{}' and h.place <> 'dead_letter'
        union all
        select 'a set belongs to no queue', h.queue_id, h.place
        from held h
        where not exists (select from pgq.queue q where q.queue_id = h.queue_id);
end
$$;
comment on function pgq._check_sets() is 'Verifies that sets hold messages of the log, once each.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/dead_letter.sql

-- Roles that may consume a queue may read its dead letters. A view, because with row security
-- pg_dump fails for a role that may read all data.
create or replace view pgq.dead_letter with (security_barrier) as
select (select q.name from pgq.queue q where q.queue_id = l.queue_id) as queue, l.*
from pgq.letter l
where l.queue_id in (select v.queue_id from pgq._visible_queue v);
comment on view pgq.dead_letter is
    'Full copies of failed messages, with the reason. They stay when the log is rotated.';
comment on column pgq.dead_letter.queue is 'The name of the queue.';
revoke all on table pgq.dead_letter from public;

-- Copies the comments of the columns from the table.
do $$
declare
    v_column record;
begin
    for v_column in
        select a.attname as name, pg_catalog.col_description(a.attrelid, a.attnum) as text
        from pg_catalog.pg_attribute a
        where a.attrelid operator(pg_catalog.=) 'pgq.letter'::regclass
          and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
          and pg_catalog.col_description(a.attrelid, a.attnum) is not null
    loop
        execute pg_catalog.format('comment on column pgq.dead_letter.%I is %L', v_column.name,
                                  v_column.text);
    end loop;
end
$$;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/explain_filter.sql

-- Explains a filter for a queue, in readable rows.
create or replace function pgq.explain_filter(
    queue text, filter jsonb, caller pgq.caller default current_user
) returns table (item text, value text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', explain_filter.queue);
    v_filter pgq.filter := pgq._find_filter(
        coalesce(explain_filter.filter, '{}'), v_queue.lane_keys);
    v_tree jsonb := pgq._filter_parse(v_filter.document);
    v_kept pgq._lanes := pgq._keep_lanes(v_queue, v_filter);
    v_all int;
    v_fields text[];
    v_testing bigint;
    v_sure bigint;
    v_tested bigint;
    v_matched bigint;
    v_more boolean;
    v_hints text[];
begin
    return query values
        ('filter', v_filter.document::text),
        ('compiled', v_filter.path::text),
        ('looks at', split_part(v_filter.scope, E'\n', 1));

    select count(*)::int into v_all from pgq.lane l where l.queue_id = v_queue.queue_id;
    if v_queue.lane_keys is null then
        return query values ('lanes', 'the queue has no lane keys');
    else
        return query values
            ('lane keys', array_to_string(v_queue.lane_keys, ', ')),
            ('lane test', v_filter.lane_path::text),
            ('lanes kept', format('%s of %s', cardinality(v_kept.kept), v_all)
                || case when v_kept.hashes is null then ''
                   else format(', by %s hashes', cardinality(v_kept.hashes)) end);
        return query
            select 'kept', coalesce(pgq._lane_text(l), 'mixed values')
            from pgq.lane l where l.lane_id = any (v_kept.kept) order by l.lane_id limit 20;
        return query
            select 'pruned', pgq._lane_text(l)
            from pgq.lane l
            where l.queue_id = v_queue.queue_id and l.lane_id <> all (v_kept.kept)
            order by l.lane_id limit 20;
    end if;
    return query
        select 'lane choice', format('%s %s, because %s', c.key, case when c.used
            then 'added' else 'dropped' end, c.reason)
        from pgq.lane_choice c where c.queue_id = v_queue.queue_id and v_queue.auto_lanes
        order by c.chosen_at, c.key;
    return query values ('final', case
        when v_filter.lane_final then 'yes: the lane keys decide, no message is tested'
        else 'no: messages of the kept lanes are tested one by one' end);

    -- A sample of the messages that a claim would test: as many as take some milliseconds.
    select coalesce(sum(p.size) filter (where p.lane_id = any (v_kept.sure)), 0),
           coalesce(sum(p.size), 0),
           count(*) >= 1000
    into v_sure, v_testing, v_more
    from pgq._peek_rows(v_queue.queue_id, v_kept, pgq._rank_first(), 10000) p;
    select count(*), count(*) filter (where pgq._test_filter(
               v_filter.path, v_filter.scope, m.headers, m.payload, m.topic, m.priority, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.attempt + 1,
               m.published_at, m.expires_at, m.id, pgq.now()))
    into v_tested, v_matched
    from (
        select e.*, p.attempt
        from pgq._peek_rows(v_queue.queue_id, v_kept, pgq._rank_first(), 10000) p
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
                'what is new', case when v_more then 'all' else v_tested::text end)
            else format('tests about %s messages for each match',
                        ceil(v_tested::numeric / v_matched)) end);

    if v_matched = 0 then
        v_hints := array(select h from pgq._explain_values(v_queue, v_tree) h);
        return query select 'hint', h from unnest(v_hints) h;
    end if;
    v_fields := array(
        select f from pgq._filter_fields(v_tree) f
        where f <> all (coalesce(v_queue.lane_keys, '{}'))
          and '#' || f <> all (coalesce(v_queue.lane_keys, '{}')) order by 1);
    return query values ('advice', case
        when v_filter.path::text in ('true', '(true)') or v_filter.document = '{}' then
            'none: the filter selects everything'
        when v_hints <> '{}' then 'correct the filter first: see the hint'
        when v_filter.lane_final and not v_queue.unlaned_rows then
            'none: the lanes answer this filter'
        when v_queue.unlaned_rows then
            'call pgq.maintain(): messages from before the queue had lane keys are still unsorted'
        when v_tested > 0 and v_matched * 2 > v_tested then
            'none: most messages match, testing them is cheap'
        when v_kept.hashes is not null and v_kept.by_lane then
            'none: a hash leads to the messages, only those are tested'
        when v_fields <> '{}' and v_queue.auto_lanes then
            'none: the queue makes a lane key of what filters test much'
        when v_fields <> '{}' and coalesce(cardinality(v_queue.lane_keys), 0) < 4 then format(
            'make %s a lane key: pgq.alter_queue(%L, lane_keys => %L), or let the queue choose '
            'with ''{auto}''; or give the filter a queue of its own with pgq.subscribe',
            case when cardinality(v_fields) = 1 then v_fields[1]
                 else 'one of ' || array_to_string(v_fields, ', ') end,
            v_queue.name, v_queue.lane_keys || v_fields[1])
        else 'give the filter a queue of its own with pgq.subscribe(queue, pattern, filter): it is '
            'then evaluated once, when a message is published'
        end);
end
$$;
comment on function pgq.explain_filter(text, jsonb, pgq.caller) is
    'Explains a filter for a queue: its compiled form, the lanes kept and pruned, whether '
    'messages are tested one by one, how many match now, the cost of a claim, advice, and fields '
    'or values that no recent message has.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/filter_stats.sql

-- Statistics of filters.
create or replace view pgq.filter_stats with (security_barrier) as
select q.name as queue, f.document as filter, sum(h.claims)::bigint as claims,
       sum(h.tested)::bigint as tested, sum(h.matched)::bigint as matched,
       max(h.last_at) as last_match_at
from pgq.filter_hit h
join pgq.filter f on f.filter_id = h.filter_id
join pgq._visible_queue q on q.queue_id = h.queue_id
group by q.name, f.document;
comment on view pgq.filter_stats is
    'Filters that claims have used: how often, and how many messages they tested and matched.';
comment on column pgq.filter_stats.claims is
    'Claims that tested or found messages. If no lane can match, at most one claim in five '
    'minutes is counted.';
revoke all on table pgq.filter_stats from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/held.sql

-- Every set of ids with its place: what a queue still has to deliver, and its dead letters.
create or replace function pgq._held()
returns table (place text, queue_id int, lease_id bigint, size int, ids int8multirange)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select 'ready', r.queue_id, null::bigint, r.size, r.ids from pgq.ready r
        union all
        select 'scheduled', s.queue_id, null, s.size, s.ids from pgq.scheduled s
        union all
        select 'lease', l.queue_id, l.lease_id, l.size, l.ids from pgq.lease l
        union all
        select 'dead_letter', d.queue_id, null, 1,
               int8multirange(int8range(d.message_id, d.message_id + 1))
        from pgq.letter d
        union all
        select 'group_line', g.queue_id, null, 1,
               int8multirange(int8range(g.message_id, g.message_id + 1))
        from pgq.group_line g;
end
$$;
comment on function pgq._held() is 'Every set of ids with its location.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/history.sql

-- What happened to a message, oldest first.
create or replace function pgq.history(message_id bigint, caller pgq.caller default current_user)
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
                from pgq.letter d
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
                from pgq.letter d where d.message_id = history.message_id
            ) u
        ) h
        left join pgq.queue q on q.queue_id = h.queue_id
        -- The publication is shown to roles that may consume a queue that has or had the message.
        where v_queues is null or h.queue_id = any (v_queues) or (h.queue_id is null and h.known)
        -- A claim takes back an expired lease and claims again at the same moment.
        order by h.at nulls last, h.attempt nulls first, h.step;
end
$$;
comment on function pgq.history(bigint, pgq.caller) is
    'The history of a message, oldest event first: publish, claim, ack, nack, release, bury, '
    'timeout, expire, replay, discard, and where it is now. It reads the audit log, so it goes '
    'back as far as the log. A role sees the events in the queues that it may consume.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/leased_message.sql

-- The leased messages, as pgq.leased returns them, for readers of a million. A function would store
-- all of them before it returns the first.
create or replace view pgq.leased_message with (security_barrier) as
select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
       m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at, m.expires_at,
       nullif(l.until, 'infinity') as lease_until, lower(r) as range_low, upper(r) as range_high
from pgq.lease l
join pgq._visible_queue q on q.queue_id = l.queue_id
cross join lateral unnest(l.ids) r
join pgq.message m on m.id >= lower(r) and m.id < upper(r);
comment on view pgq.leased_message is
    'The messages of leases, in no particular order. Read them by lease_id and a range of ids '
    'from pgq.lease_parts.';
comment on column pgq.leased_message.range_low is
    'The first id of the contiguous range of ids of the lease that has the message.';
comment on column pgq.leased_message.range_high is
    'The id after the last id of that range. With conditions on both columns, a reader skips '
    'other ranges.';
revoke all on table pgq.leased_message from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/leases.sql

-- Who holds which messages: the list from which an operator breaks a lease.
create or replace view pgq.leases as
select l.lease_id, q.name as queue, l.key, sum(l.size) as size, max(l.attempt) as attempt,
       min(l.claimed_at) as claimed_at, pgq.now() - min(l.claimed_at) as age,
       nullif(min(l.until), 'infinity') as until, l.holder, l.client
from pgq.lease l
join pgq.queue q on q.queue_id = l.queue_id
group by l.lease_id, q.name, l.key, l.holder, l.client;
comment on view pgq.leases is
    'Every lease: who holds how many messages of which queue, since when and until when. '
    'pgq.release(lease_id) breaks a lease, so that others can claim its messages.';
comment on column pgq.leases.key is 'The name of a named claim; null: none.';
comment on column pgq.leases.until is
    'Null: the lease never expires. Watch the age of such leases: their consumer may have '
    'crashed.';
comment on column pgq.leases.holder is 'application_name of the claiming session.';
revoke all on table pgq.leases from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/limits.sql

-- The limits of the queues that the current user may consume, and their use. Calls no functions of
-- pgq but pgq.now(): in a view they would run with the rights of the current user.
create or replace view pgq.limits with (security_barrier) as
select q.name as queue, l.max_leased,
       case when num_nonnulls(l.max_leased, l.lane_max_leased) > 0 then (
           select coalesce(sum(e.size), 0) from pgq.lease e
           where e.queue_id = l.queue_id and e.flow is not null) end as leased,
       l.rate, b.burst,
       f.tokens,
       l.lane_max_leased, l.lane_rate, b.lane_burst, l.fair
from pgq.queue_limit l
join pgq._visible_queue q on q.queue_id = l.queue_id
cross join lateral (
    select case when l.rate is not null then
               coalesce(l.burst, greatest(1, split_part(l.rate, '/', 1)::int / 10)) end as burst,
           case when l.lane_rate is not null then
               coalesce(l.lane_burst, greatest(1, split_part(l.lane_rate, '/', 1)::int / 10))
           end as lane_burst
) b
-- The sum over the token buckets of the shards: see _shards, _tokens.
cross join lateral (
    select sum(floor(b.burst::bigint * (s + 1) / k.shards - b.burst::bigint * s / k.shards
                     - greatest(0, extract(epoch from m.full_at - pgq.now())::float8
                                   / (l.step * k.shards)) + 1e-6))::int as tokens
    from (select least(16, l.max_leased, greatest(1, b.burst / 10)) as shards) k
    cross join lateral generate_series(0, k.shards - 1) s
    cross join lateral (
        select max(f.full_at) as full_at from pgq.flow f
        where f.queue_id = l.queue_id and f.lane = 16 + s) m
    where l.step is not null
) f;
comment on view pgq.limits is 'The limits of queues, and how much of them is used.';
comment on column pgq.limits.leased is 'Messages that are leased now; null: not limited.';
comment on column pgq.limits.tokens is
    'How many messages the rate lets through at this moment; null: no rate.';
comment on column pgq.limits.fair is 'Claims take turns over the lanes; limits of lanes imply it.';
revoke all on table pgq.limits from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/message_state.sql

-- The state of every undelivered message; a message in none of these states is done.
create or replace view pgq.message_state with (security_barrier) as
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
    from pgq.letter d
) s
join pgq._visible_queue q on q.queue_id = s.queue_id;
comment on view pgq.message_state is
    'Every unfinished message and its state: ready, delayed, retrying, leased, dead, or waiting '
    'for its turn in an ordering group. This view reads all messages; for one message use '
    'pgq.history(id).';
comment on column pgq.message_state.attempt is 'Deliveries so far, including the current one.';
comment on column pgq.message_state.since is 'When the message was claimed or failed.';
comment on column pgq.message_state.until is 'When it expires or is due, or its lease expires.';
revoke all on table pgq.message_state from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/oldest_ready.sql

-- The lowest id of a ready message of a queue: the minimum over the first rows of all rank ranges,
-- by index.
create or replace function pgq._oldest_ready(queue_id int) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_after bigint := pgq._rank_first();
    v_rank bigint;
    v_oldest bigint;
begin
    loop
        select r.rank into v_rank from pgq.ready r
        where r.queue_id = _oldest_ready.queue_id and r.rank >= v_after order by r.rank limit 1;
        exit when not found;
        v_oldest := least(v_oldest, pgq._rank_id(v_rank));
        v_after := pgq._rank_of(pgq._rank_class(v_rank) + 1, 0);
    end loop;
    return v_oldest;
end
$$;
comment on function pgq._oldest_ready(int) is 'The lowest id of a ready message of a queue.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/queue_metrics.sql

-- The metrics from pgq's own tables, read with the rights of their owner, for the queues that the
-- caller may consume. The owner and members of pg_monitor get all of them.
create or replace function pgq._metrics(caller pgq.caller default current_user)
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
                   sum(o.size) filter (where o.event in ('nack', 'timeout', 'bury')
                                        and o.reason is null)
                       as retries,
                   sum(o.size) filter (where o.event = 'timeout') as timeouts,
                   sum(o.size) filter (where o.event = 'expire') as expired,
                   sum(o.size) filter (where o.event = 'release') as released,
                   sum(o.size) filter (where o.event = 'replay') as replayed,
                   sum(o.size) filter (where o.event = 'discard') as discarded,
                   sum(o.size) filter (where o.event in ('cancel', 'purge', 'replace'))
                       as cancelled,
                   sum(o.size) filter (where o.event = 'move') as moved
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
                select min(d.failed_at) from pgq.letter d where d.queue_id = q.queue_id))),
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
            ('pgq_cancelled_messages_total', o.cancelled),
            ('pgq_moved_messages_total', o.moved),
            ('pgq_filter_claims_total', f.claims),
            ('pgq_filter_tested_messages_total', f.tested),
            ('pgq_filter_matched_messages_total', f.matched)) x (name, value)
        -- A rate that was not counted is missing, not 0.
        where x.value is not null or x.name !~ '_per_second$'
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

    v_retention := pgq._log_retention();
    return query
        select x.name, x.labels, coalesce(x.value, 0)
        from (values
            ('pgq_info', jsonb_build_object('version', pgq.version()), 1::float8),
            ('pgq_in_recovery', '{}', pg_is_in_recovery()::int),
            ('pgq_published_messages_total', '{}', pg_sequence_last_value('pgq.message_id')),
            ('pgq_claims_total', '{}', coalesce(pg_sequence_last_value('pgq.lease_id'), 0)
                + coalesce(pg_sequence_last_value('pgq.checked_lease_id') - 6291455, 0)),
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
                    then coalesce((select max(pgq._bounded(a.wait, pgq._limit('policy_years')))
                                   from pgq.archive a), '0')
                    else '0' end))))) x (name, labels, value)
        union all
        select x.name, jsonb_build_object('table', c.relname), coalesce(x.value, 0)
        from pg_class c
        cross join lateral (values
            ('pgq_table_bytes', pg_total_relation_size(c.oid)::float8),
            ('pgq_table_dead_rows', pg_stat_get_dead_tuples(c.oid))) x (name, value)
        where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and not c.relispartition;
    -- A standby cannot read an unlogged table.
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
comment on function pgq._metrics(pgq.caller) is 'The metrics from pgq''s own tables.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/queue_stats.sql

-- The state of the queues. Counts are exact while a queue has few rows; for a large backlog some
-- pages are sampled, so that a query takes milliseconds whatever the backlog.
create or replace function pgq._queue_stats(caller pgq.caller default current_user)
returns table (queue text, mode text, paused boolean, ready bigint, scheduled bigint,
               leased bigint, waiting bigint, dead bigint, exact boolean, oldest_age interval,
               next_due_at timestamptz, published_per_second float8, acked_per_second float8,
               failed_per_second float8, relay text, rate_seconds float8, estimated text[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
-- The first 501 rows of a queue are found by index, without reading those of other queues.
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
begin
    return query
        with ready_sample as materialized (
            select r.queue_id, sum(r.size) * 100 / v_ready as size
            from pgq.ready r tablesample system (v_ready) repeatable (0)
            group by 1
        ), lease_sample as materialized (
            select l.queue_id, sum(l.size) * 100 / v_lease as size
            from pgq.lease l tablesample system (v_lease) repeatable (0)
            group by 1
        ), scheduled_sample as materialized (
            select s.queue_id, sum(s.size) * 100 / v_scheduled as size
            from pgq.scheduled s tablesample system (v_scheduled) repeatable (0)
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
               (select count(*) from pgq.letter y where y.queue_id = q.queue_id),
               not (r.many or c.many or l.many or g.size > 10000),
               v_now - (select m.published_at from pgq.message m
                        where m.id = pgq._oldest_ready(q.queue_id)),
               (select min(s.due_at) from pgq.scheduled s where s.queue_id = q.queue_id),
               f.received, f.acked, f.failed,
               (select case when not bool_and(coalesce(s.owner is not null and s.until > v_now,
                                                       false)) then 'silent'
                            when bool_or(x.circuit = 'open') then 'open'
                            when bool_or(x.circuit = 'half-open') then 'half-open'
                            when count(*) > 0 then 'closed' end
                from pgq.relay x
                left join pgq.stream s on s.queue_id = x.queue_id and s.consumer = x.relay
                where x.queue_id = q.queue_id),
               f.seconds,
               array_remove(array[case when r.many then 'ready' end,
                                  case when c.many then 'scheduled' end,
                                  case when l.many then 'leased' end,
                                  case when g.size > 10000 then 'waiting' end], null)
        from pgq.queue q
        left join pgq._rates() f on f.queue_id = q.queue_id
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
            -- A lower bound: 10001 means that there are more.
            select count(*) as size
            from (select from pgq.group_line y where y.queue_id = q.queue_id limit 10001) x
        ) g
        where v_queues is null or q.queue_id = any (v_queues)
        order by q.name;
end
$$;
comment on function pgq._queue_stats(pgq.caller) is 'The state of the queues.';

create or replace view pgq.queue_stats as select * from pgq._queue_stats();
comment on view pgq.queue_stats is
    'The state of the queues: how many messages are ready, scheduled, leased and dead, the age of '
    'the oldest ready message, and rates over the last one to two minutes. The view is cheap, '
    'whatever the backlog: above 500 rows a count is an estimate from a sample. The estimate '
    'stays the same while nothing changes, and the column estimated names such counts. Dead '
    'letters are always counted.';
comment on column pgq.queue_stats.exact is 'No count is an estimate.';
comment on column pgq.queue_stats.estimated is
    'The counts that are estimates; waiting: there are more than 10,000.';
comment on column pgq.queue_stats.rate_seconds is
    'The window of the rates in seconds. It ends now, or with the last count of maintain().';
comment on column pgq.queue_stats.waiting is 'Waiting for their turn in an ordering group.';
comment on column pgq.queue_stats.published_per_second is
    'Messages that the queue received: of its own topic, and by its subscriptions. Null: there is '
    'no recent count, because maintain() does not run.';
comment on column pgq.queue_stats.acked_per_second is
    'Null: there is no recent count, or the audit log of the queue records failures only.';
comment on column pgq.queue_stats.relay is
    'The worst state of the queue''s relays: silent (no sign of life), or the circuit breaker is '
    'open, half-open or closed. Null: the queue has no relays. See pgq.relays.';
revoke all on table pgq.queue_stats from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/queue_traffic.sql

-- The last hours of each queue, minute by minute.
create or replace view pgq.queue_traffic with (security_barrier) as
select q.name as queue, t.minute,
       coalesce(sum(t.size) filter (where t.event = 'in'), 0)::bigint as received,
       case when r.journal = 'all' then
           coalesce(sum(t.size) filter (where t.event = 'ack'), 0)::bigint end as acked,
       coalesce(sum(t.size) filter (where t.event in ('nack', 'bury', 'timeout')), 0)::bigint
           as failed,
       (sum(t.size) filter (where t.event = 'ready'))::bigint as ready,
       (sum(t.size) filter (where t.event = 'dead'))::bigint as dead
from pgq.traffic t
join pgq._visible_queue q on q.queue_id = t.queue_id
join pgq.queue r on r.queue_id = t.queue_id
group by q.name, t.minute, r.journal;
comment on view pgq.queue_traffic is
    'The traffic of each queue in each minute of the last 12 hours, as counted by maintain(): '
    'messages received, acknowledged and failed, and how many were ready and dead at the last '
    'count of the minute. A minute without events and without a count has no row.';
comment on column pgq.queue_traffic.acked is
    'Null: the audit log of the queue records failures only.';
comment on column pgq.queue_traffic.ready is 'Null: there was no count in that minute.';
comment on column pgq.queue_traffic.dead is 'Null: there was no count in that minute.';
revoke all on table pgq.queue_traffic from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/relays.sql

-- The relays of the queues that the current user may consume.
create or replace view pgq.relays with (security_barrier) as
select q.name as queue, r.relay, r.destination,
       s.owner is not null and s.until > pgq.now() as alive,
       r.circuit, r.changed_at, r.error, s.owner, s.batch
from pgq.relay r
join pgq._visible_queue q on q.queue_id = r.queue_id
left join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay;
comment on view pgq.relays is
    'The relays: the destination of each, whether it is running, and the state of its circuit '
    'breaker. pgq.relay_report(queue, relay) removes the record of a relay that is gone for good.';
comment on column pgq.relays.alive is
    'False: the relay has not renewed its stream in time, or it has ended without removing its '
    'record.';
comment on column pgq.relays.changed_at is 'When the circuit breaker got its current state.';
comment on column pgq.relays.owner is 'The process that runs the relay.';
comment on column pgq.relays.batch is 'The last batch that the relay has finished.';
revoke all on table pgq.relays from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/replies.sql

-- The messages that belong together by their correlation id, oldest first.
create or replace function pgq.replies(
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
    'The messages of the log with this correlation_id, oldest first. An index finds them.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/result.sql

-- The outcome of a message, a row for each queue that has or had it.
create or replace function pgq.result(message_id bigint, caller pgq.caller default current_user)
returns table (queue text, state text, result jsonb, error text, at timestamptz)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_visible int[] := pgq._visible_queues(caller);
    v_queues int[] := v_visible;
    v_message pgq.message;
begin
    select m.* into v_message from pgq.message m where m.id = result.message_id;
    -- The publisher of a message may see how it ended, but not the names of others' queues.
    if v_message.publisher = caller::text then
        v_queues := null;
    end if;
    return query
        select case when v_visible is null or x.queue_id = any (v_visible) then q.name end,
               x.state, x.result, x.error, x.at
        from (
            select j.queue_id, 'done' as state, j.result, null::text as error, j.at
            from pgq.journal j
            where lower(j.ids) = result.message_id and j.result is not null
            union all
            select d.queue_id, 'dead', null, concat_ws(': ', d.reason, d.error), d.failed_at
            from pgq.queue p join pgq.dead_letter d
                on d.queue_id = p.queue_id and d.message_id = result.message_id
            union all
            select h.queue_id, h.state, null, null, null
            from (
                select r.queue_id, 'waiting' as state, r.ids from pgq.ready r
                union all
                select s.queue_id, 'waiting', s.ids from pgq.scheduled s
                union all
                select l.queue_id, 'working', l.ids from pgq.lease l
                union all
                select g.queue_id, 'waiting',
                       int8multirange(int8range(g.message_id, g.message_id + 1))
                from pgq.group_line g where g.message_id = result.message_id
            ) h
            where h.ids @> result.message_id
        ) x
        join pgq.queue q on q.queue_id = x.queue_id
        where v_queues is null or x.queue_id = any (v_queues)
        order by q.name, x.at;
    -- In the log but in none of these states: it was acknowledged or cancelled without a result.
    if not found and v_message.id is not null
       and (v_queues is null or pgq._is_received(v_queues, v_message))
    then
        return query select null::text, 'done', null::jsonb, null::text, null::timestamptz;
    end if;
end
$$;
comment on function pgq.result(bigint, pgq.caller) is
    'The outcome of a message, a row for each queue that has or had it: done with the result of '
    'pgq.finish, dead with the error, waiting or working. Done without queue and result: the '
    'message was acknowledged or cancelled. No row: the message is no longer in the log. A role '
    'sees the queues that it may consume. For a message that it has published it also sees the '
    'other queues, without their names.';
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/rights.sql

-- The rights to queues. The owner sees all of them, other roles their own.
create or replace view pgq.rights with (security_barrier) as
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
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/schedules.sql

-- The owner sees all schedules, others their own.
create or replace view pgq.schedules with (security_barrier) as
select s.name, s.topic, s.payload, s.headers, s.priority, s.expires_in, s.cron, s.every,
       s.time_zone, s.missed, coalesce(r.rolname, s.role::text) as role,
       s.next_at is null as paused, s.last_at, s.last_id, s.next_at,
       pgq.now() - s.next_at as late, s.error
from pgq.schedule s
left join pg_roles r on r.oid = s.role
where has_table_privilege('pgq.schedule'::regclass, 'truncate')
   or pg_has_role(s.role, 'usage');
comment on view pgq.schedules is
    'The schedules, with their last and their next run: all of them for the owner, their own for '
    'others.';
comment on column pgq.schedules.role is
    'The role with whose rights the messages are published; null: the owner.';
comment on column pgq.schedules.last_at is 'When it last ran; null: never.';
comment on column pgq.schedules.last_id is 'The message of the last run.';
comment on column pgq.schedules.next_at is 'The next run; null: paused.';
comment on column pgq.schedules.late is
    'By how much the next run is overdue; negative: the time until the next run.';
comment on column pgq.schedules.error is 'Why the last run failed; null: it did not.';
revoke all on table pgq.schedules from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/streams.sql

-- The streams of the queues that the current user may consume, and the lineage of recent batches.
create or replace view pgq.streams with (security_barrier) as
select q.name as queue, s.consumer, s.batch as finished,
       s.owner is not null and s.until > pgq.now() as alive, s.owner, s.query,
       l.batch, l.reader, l.size, l.read_at, l.committed_at, l.wrote
from pgq.stream s
join pgq._visible_queue q on q.queue_id = s.queue_id
left join pgq.lineage l on l.queue_id = s.queue_id and l.consumer = s.consumer;
comment on view pgq.streams is
    'The streams, with the last finished batch and the owner of each. For recent batches also the '
    'reader, and what was committed with them.';
comment on column pgq.streams.finished is 'The last batch that is finished.';
comment on column pgq.streams.alive is
    'False: the owner has not renewed the stream in time, or has ended.';
comment on column pgq.streams.batch is 'A batch that was read, finished or not; null: none.';
comment on column pgq.streams.reader is
    'The execution that read the batch; for Spark: query, run and batch.';
comment on column pgq.streams.wrote is
    'How many rows went to each table, and how many messages to queues.';
revoke all on table pgq.streams from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/subscription.sql

-- Which queue is subscribed to which topics, and how often the subscription matched.
create or replace view pgq.subscription with (security_barrier) as
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
    'Which queue is subscribed to which topics, since when, and how often the subscription '
    'matched. A queue''s own topic is not '
    'a subscription.';
revoke all on table pgq.subscription from public;
$pgq_script$;
    execute $pgq_script$
-- sql/80_observe/version.sql

-- The version of the installed code.
create or replace function pgq.version() returns text
language sql immutable parallel safe
return '0.1.0';
comment on function pgq.version() is 'The version of the installed code.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/backlog_findings.sql

-- Findings about the backlogs of queues.
create or replace function pgq._backlog_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with state as materialized (
            select q.*, s.ready, s.exact, s.leased, s.oldest_age as age,
                   s.published_per_second as received, s.acked_per_second as acked,
                   s.failed_per_second as failed, p.minute as before_at, p.size as before,
                   case when s.exact then '' else 'about ' end || pgq._number(s.ready)
                       || ' ready, the oldest for ' || pgq._span(s.oldest_age) as waits
            from pgq.queue q
            join pgq._queue_stats() s on s.queue = q.name
            left join lateral (
                select t.minute, t.size from pgq.traffic t
                where t.queue_id = q.queue_id and t.event = 'ready'
                  and t.minute between _backlog_findings.now - interval '15 min'
                                   and _backlog_findings.now - interval '2 min'
                order by t.minute limit 1
            ) p on true
            where (queues is null or q.queue_id = any (queues)) and q.mode = 'queue'
              and s.ready > 0
        ), judged as (
            select s.*,
                   case when s.paused then 'paused'
                        when s.age > interval '1 min' and s.leased = 0
                             and coalesce(s.acked + s.failed, s.failed, 0) = 0 then 'no_consumer'
                        when s.ready > s.before
                                 + greatest(50, s.before / case when s.exact then 5 else 2 end)
                             or s.before is null and s.ready >= 1000 and s.received > s.acked
                        then 'growing'
                        when s.age > interval '15 min' then 'late' end as finding
            from state s
        )
        select case when j.finding = 'no_consumer'
                         or j.finding = 'growing' and j.age > interval '15 min' then 'critical'
                    else 'warning' end,
               j.name, j.finding,
               case j.finding when 'growing' then j.before_at
                   else _backlog_findings.now - j.age end,
               case j.finding
                   when 'paused' then 'is paused with ' || j.waits
                   when 'no_consumer' then 'nobody consumes it: ' || j.waits
                   when 'growing' then format(
                       'grows: per second %s come and %s are done; %s',
                       round(j.received::numeric, 1),
                       coalesce(round(j.acked::numeric, 1)::text, '?'), j.waits)
                   else 'is late: ' || j.waits end,
               case j.finding when 'paused' then format('select pgq.resume(%L)', j.name)
                   else format('-- start consumers of %s, or more of them; or select pgq.purge(%L)',
                               j.name, j.name) end
        from judged j where j.finding is not null;
end
$$;
comment on function pgq._backlog_findings(int[], timestamptz) is
    'Findings about the backlogs of queues.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/doubled.sql

-- A rate of twice as many messages.
create or replace function pgq._doubled(rate text) returns text
language sql immutable parallel safe
return 2 * split_part(rate, '/', 1)::bigint || '/' || split_part(rate, '/', 2);
comment on function pgq._doubled(text) is 'A rate of twice as many messages.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/failure_findings.sql

-- Findings about failures: failed attempts, dead letters, expired leases.
create or replace function pgq._failure_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select case when d.fresh > 0 then 'critical' else 'warning' end, q.name,
               case when d.fresh > 0 then 'dead_letters_rising' else 'dead_letters' end,
               case when d.fresh > 0 then d.first_fresh else d.first end,
               case when d.fresh > 0 then format(
                   '%s new dead letters within 15 min, %s in all', pgq._number(d.fresh),
                   pgq._number(d.size))
                   else format('%s dead letters, the last one %s ago', pgq._number(d.size),
                               pgq._span(_failure_findings.now - d.last)) end
               || coalesce('; the last error: ' || left(regexp_replace(rtrim(d.error, E'\n '),
                   E'Traceback [(]most recent call last[)]:.*\n', ''), 100), ''),
               format('select pgq.replay(%L) -- or pgq.discard', q.name)
        from pgq.queue q
        cross join lateral (
            select count(*) as size, min(l.failed_at) as first, max(l.failed_at) as last,
                   count(*) filter (
                       where l.failed_at > _failure_findings.now - interval '15 min') as fresh,
                   min(l.failed_at) filter (
                       where l.failed_at > _failure_findings.now - interval '15 min')
                       as first_fresh,
                   (select e.error from pgq.letter e where e.queue_id = q.queue_id
                    order by e.failed_at desc limit 1) as error
            from pgq.letter l where l.queue_id = q.queue_id
        ) d
        where (queues is null or q.queue_id = any (queues)) and d.size > 0;
    -- The share of attempts that failed; unknown where acknowledgements are not recorded.
    return query
        select case when r.failed >= 0.5 * (r.acked + r.failed) then 'critical' else 'warning' end,
               q.name, 'failing', null::timestamptz,
               format('%s %% of the attempts fail (%s a second)',
                      round((100 * r.failed / (r.acked + r.failed))::numeric),
                      round(r.failed::numeric, 2)),
               format('select at, error from pgq.journal where queue_id = %s and error is not null '
                      'order by at desc limit 10', q.queue_id)
        from pgq._rates() r join pgq.queue q on q.queue_id = r.queue_id
        where (queues is null or q.queue_id = any (queues))
          and r.failed > 0 and r.failed >= 0.1 * (r.acked + r.failed);
    return query
        select 'warning', q.name, 'leases_end', min(t.minute),
               format('%s messages were redelivered within 15 min: their lease of %s expired',
                      pgq._number(sum(t.size)), pgq._span(pgq._lease_span(q.lease))),
               format('select pgq.alter_queue(%L, lease => %L) -- or do workers die?', q.name,
                      4 * pgq._lease_span(q.lease))
        from (
            select x.queue_id, x.minute, x.size from pgq.queue p
            join pgq.traffic x on x.queue_id = p.queue_id and x.event = 'timeout'
                and x.minute > _failure_findings.now - interval '15 min'
            union all
            select u.queue_id, u.minute, u.size from pgq._uncounted(true) u
            where pgq._is_live() and u.event = 'timeout'
              and u.minute > _failure_findings.now - interval '15 min'
        ) t
        join pgq.queue q on q.queue_id = t.queue_id
        where queues is null or q.queue_id = any (queues)
        group by q.queue_id;
end
$$;
comment on function pgq._failure_findings(int[], timestamptz) is
    'Findings about failed attempts, dead letters and expired leases.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/findings.sql

-- Findings about the queues that the caller may consume, read with the rights of their owner. The
-- owner and members of pg_monitor get all findings.
create or replace function pgq._findings(role text, caller pgq.caller default current_user)
returns setof pgq._finding
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := pgq.now();
    v_queues int[] := case when not pg_has_role(caller, 'pg_monitor', 'usage')
        then pgq._visible_queues(caller) end;
begin
    return query select * from pgq._backlog_findings(v_queues, v_now);
    return query select * from pgq._failure_findings(v_queues, v_now);
    return query select * from pgq._lease_findings(v_queues, v_now);
    return query select * from pgq._usage_findings(v_queues, v_now);
    return query select * from pgq._limit_findings(v_queues, v_now);
    if v_queues is null then
        return query select * from pgq._log_findings(v_now);
        return query select * from pgq._grant_findings(role);
    end if;
end
$$;
comment on function pgq._findings(text, pgq.caller) is 'Findings about queues.';

create or replace function pgq.findings(
    snapshot_age interval default '5 min', role text default null
) returns table (severity text, queue text, finding text, since timestamptz, detail text, cure text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select f.severity, f.queue, f.finding, f.since, f.detail, f.cure
        from (
            select * from pgq._findings(findings.role)
            union all
            select * from pgq._server_findings(coalesce(findings.snapshot_age, '5 min'))
        ) f
        order by f.severity, f.queue nulls last, f.finding, f.since;
end
$$;
comment on function pgq.findings(interval, text) is
    'Problems that need attention, the worst first: the finding (a name for programs), its detail '
    '(for people), the queue, since when it exists, and a statement that cures it. The command '
    'pgq doctor, the web page and alerts show this list. snapshot_age: the age from which a '
    'transaction counts as long-running. role: also checks whether this role may publish and '
    'consume. It takes milliseconds, whatever the backlog. Covers the queues that the caller may '
    'consume; the owner and members of pg_monitor see all queues and the database.';

grant execute on function pgq.findings, pgq._findings to pg_monitor;
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/grant_findings.sql

-- Roles that lack functions which publishers or consumers need. Null: checks all roles that may use
-- the schema.
create or replace function pgq._grant_findings(role text) returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with work (kind, names) as (
            values ('publish', '{publish,publish_batch}'::text[]),
                   ('consume', '{claim,peek,leased,ack,nack,bury,release,extend,wait_begin,'
                               'wait_end,channel}')
        ), named as (
            select r.rolname from pg_roles r where r.rolname = _grant_findings.role
            union
            select r.rolname
            from pg_namespace n, aclexplode(n.nspacl) a join pg_roles r on r.oid = a.grantee
            where n.nspname = 'pgq' and _grant_findings.role is null
              and r.rolname <> 'pg_monitor'  -- it reads metrics, and nothing else
        ), held as (
            select r.rolname, w.kind, p.oid,
                   has_function_privilege(r.rolname, p.oid, 'execute') as granted
            from named r, work w, pg_proc p
            where p.pronamespace = 'pgq'::regnamespace and p.proname = any (w.names)
        ), lacking as (
            select h.rolname, h.kind, bool_or(h.granted) as some,
                   array_agg(h.oid::regprocedure::text order by h.oid) filter (
                       where not h.granted) as list
            from held h group by 1, 2
        )
        select 'warning', null::text, 'rights', null::timestamptz,
               format('role %s: it may not use the schema pgq', r.rolname),
               format('select pgq.grant_queue(%L, %L, %L)', 'QUEUE', r.rolname, 'consume')
        from named r where not has_schema_privilege(r.rolname, 'pgq', 'usage')
        union all
        select 'warning', null, 'rights', null,
               format('role %s: to %s it lacks %s functions: %s', l.rolname, l.kind,
                      cardinality(l.list), array_to_string(l.list, ', ')),
               format('select pgq.grant_queue(%L, %L, %L)', 'QUEUE', l.rolname, l.kind)
        from lacking l
        where l.list is not null
          and (l.some or _grant_findings.role is not null
               or not exists (select from lacking o where o.rolname = l.rolname and o.some))
        union all
        select 'warning', null, 'rights', null,
               format('role %s: there is no such role', _grant_findings.role),
               format('create role %I', _grant_findings.role)
        where _grant_findings.role is not null and not exists (select from named);
end
$$;
comment on function pgq._grant_findings(text) is
    'Roles that lack functions which publishers or consumers need.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/lanes_at_limit.sql

-- Lanes of a queue that have messages and are at their limit, and since when the first one waits.
create or replace function pgq._lanes_at_limit(limits pgq.queue_limit, now timestamptz)
returns table (lane text, since timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select pgq._lane_text(l), m.published_at
        from pgq.lane l
        cross join lateral (select pgq._lane_flow(l.label) as flow) c
        cross join lateral (
            select lower(r.ids) as id from pgq.ready r where r.lane_id = l.lane_id
            order by r.rank limit 1
        ) h
        join pgq.message m on m.id = h.id
        where l.queue_id = limits.queue_id
          and (limits.lane_max_leased <= (
                   select coalesce(sum(e.size), 0) from pgq.lease e
                   where e.queue_id = limits.queue_id and e.flow = c.flow)
               or 2 * pgq._tokens((
                   select max(f.full_at) from pgq.flow f
                   where f.queue_id = limits.queue_id and f.lane = c.flow), limits.lane_step,
                   pgq._burst(limits.lane_rate, limits.lane_burst), _lanes_at_limit.now)
                   < pgq._burst(limits.lane_rate, limits.lane_burst));
end
$$;
comment on function pgq._lanes_at_limit(pgq.queue_limit, timestamptz) is
    'Lanes of a queue that have messages and are at their limit.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/lease_findings.sql

-- Leases that are held for too long, that never end, or that nobody takes back.
create or replace function pgq._lease_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with lease as (
            select l.lease_id, q.name, pgq._lease_span(q.lease) as lease, l.key, l.claimed_at,
                   l.until, sum(l.size) as size,
                   coalesce(nullif(l.holder, ''), host(l.client), 'an unnamed consumer') as who,
                   exists (select from pgq.stream s
                           where s.queue_id = l.queue_id and s.owner is not null
                             and s.until > _lease_findings.now
                             and starts_with(l.key, 'stream ' || s.consumer || ' ')) as streamed
            from pgq.lease l join pgq.queue q on q.queue_id = l.queue_id
            where (queues is null or q.queue_id = any (queues))
              and l.claimed_at < _lease_findings.now - interval '1 min'
            group by l.lease_id, q.name, q.lease, l.key, l.claimed_at, l.until, l.holder, l.client,
                     l.queue_id
        ), judged as (
            select l.*, case when l.until = 'infinity' then 'lease_endless'
                             when l.until < _lease_findings.now - interval '1 min'
                             then 'lease_expired'
                             else 'lease_long' end as finding
            from lease l
            where l.until = 'infinity' and not l.streamed
                  and l.claimed_at < _lease_findings.now - interval '1 h'
               or l.until < _lease_findings.now - interval '1 min'
               or l.until < 'infinity' and l.claimed_at < _lease_findings.now - 10 * l.lease
        )
        select 'warning', j.name, j.finding, min(j.claimed_at),
               case j.finding
                   when 'lease_endless' then format(
                       '%s holds %s messages in a lease that never expires, for %s', max(j.who),
                       pgq._number(sum(j.size)), pgq._span(_lease_findings.now - min(j.claimed_at)))
                   when 'lease_expired' then format(
                       '%s leases with %s messages have expired and are not taken back',
                       pgq._number(count(*)), pgq._number(sum(j.size)))
                   else format('%s holds %s messages for %s, many times the lease of %s',
                       max(j.who), pgq._number(sum(j.size)),
                       pgq._span(_lease_findings.now - min(j.claimed_at)),
                       pgq._span(max(j.lease))) end,
               case j.finding when 'lease_expired' then 'call pgq.maintain()'
                   else string_agg(format('select pgq.release(%s)', j.lease_id), '; ') end
        from judged j
        group by j.name, j.finding, case when j.finding <> 'lease_expired' then j.who end;
end
$$;
comment on function pgq._lease_findings(int[], timestamptz) is
    'Leases that are held for too long, that never expire, or that no claim takes back.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/limit_findings.sql

-- Limits that make messages wait for more than a minute. A bucket that is less than half full shows
-- that the rate is the cause, and not a lack of consumers.
create or replace function pgq._limit_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        with waiting as materialized (
            select q.queue_id, q.name, s.leased, l, _limit_findings.now - s.oldest_age as since,
                   format('%s wait, the oldest for %s', pgq._number(s.ready),
                          pgq._span(s.oldest_age)) as waits
            from pgq.queue_limit l join pgq.queue q on q.queue_id = l.queue_id
            join pgq._queue_stats() s on s.queue = q.name
            where (queues is null or q.queue_id = any (queues))
              and s.oldest_age > interval '1 min'
        )
        select 'warning', w.name, 'limit_reached', w.since,
               format('%s messages are leased, which is the limit: %s',
                      pgq._number((w.l).max_leased), w.waits),
               format('select pgq.alter_queue(%L, max_leased => %s)', w.name,
                      2 * (w.l).max_leased)
        from waiting w where w.leased >= (w.l).max_leased
        union all
        select 'warning', w.name, 'limit_reached', w.since,
               format('no more than %s may be claimed: %s', (w.l).rate, w.waits),
               format('select pgq.alter_queue(%L, rate => %L)', w.name,
                      pgq._doubled((w.l).rate))
        from waiting w
        where 2 * pgq._queue_tokens(w.l, _limit_findings.now)
            < pgq._burst((w.l).rate, (w.l).burst)
        union all
        select 'warning', w.name, 'limit_reached', min(x.since),
               format('%s lanes have reached their limit while messages wait: %s',
                      count(*), string_agg(coalesce(x.lane, 'others'), ', ' order by x.since)
                          filter (where x.i <= 3)),
               format('select pgq.alter_queue(%L, %s)', w.name, concat_ws(', ',
                      'lane_max_leased => ' || 2 * (w.l).lane_max_leased,
                      'lane_rate => ' || quote_literal(pgq._doubled((w.l).lane_rate))))
        from waiting w
        cross join lateral (
            select a.*, row_number() over (order by a.since) as i
            from pgq._lanes_at_limit(w.l, _limit_findings.now) a
            where a.since < _limit_findings.now - interval '1 min'
        ) x
        group by w.name, w.l;
end
$$;
comment on function pgq._limit_findings(int[], timestamptz) is
    'Limits that make messages wait.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/log_findings.sql

-- Maintenance that does not happen, and a log that is not rotated.
create or replace function pgq._log_findings(now timestamptz) returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_retention interval := pgq._log_retention();
    v_longest interval := v_retention + greatest(v_retention / 10, interval '10 min');
    v_oldest timestamptz := (
        select m.published_at from pgq.message m order by m.id limit 1);
begin
    return query
        select case when m.last_at is null then 'critical' else 'warning' end, null::text,
               case when m.last_at is null then 'maintain_never' else 'maintain_late' end,
               coalesce(m.last_at, v_oldest),
               case when m.last_at is null then 'pgq.maintain() was never called: the log grows'
                    else format('pgq.maintain() was last called %s ago: the log grows',
                                pgq._span(_log_findings.now - m.last_at)) end,
               'call pgq.maintain() -- about every minute, by a consumer, pg_cron or pgq maintain'
        from pgq.maintenance m
        where coalesce(m.last_at, v_oldest) < _log_findings.now - interval '15 min';
    return query
        select 'warning', null::text, 'rotation_overdue', x.since,
               format('era %s %s: the log grows', x.number, x.text),
               'call pgq.maintain() -- a long transaction that reads the log is in the way, if not'
        from (
            select e.number, e.started_at + v_retention as since,
                   format('began at %s and should have ended', date_trunc('second', e.started_at))
                       as text
            from pgq.era e
            where e.number = pg_sequence_last_value('pgq.era_number')
              and e.started_at + v_longest < _log_findings.now
              and pg_relation_size(format('pgq.message_%s', e.slot)::regclass) > 0
            union all
            select e.number, n.started_at + v_retention,
                   format('ended at %s, and its messages are still there',
                          date_trunc('second', n.started_at))
            from pgq.era e join pgq.era n on n.number = e.number + 1
            where e.emptied_at is null and n.started_at + v_longest < _log_findings.now
              and (e.archived_at is not null or not exists (
                  select from pgq.archive a
                  where n.started_at + v_longest + a.wait > _log_findings.now))
        ) x;
end
$$;
comment on function pgq._log_findings(timestamptz) is
    'Maintenance that does not happen, and a log that is not rotated.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/number.sql

-- A number with thousands separators, such as 12,345.
create or replace function pgq._number(n numeric) returns text
language sql immutable parallel safe
return to_char(n, 'FM999,999,999,999,999,990');
comment on function pgq._number(numeric) is 'A number with thousands separators, such as 12,345.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/queue_tokens.sql

-- How many messages the rate of a queue lets through at this moment; null: it has none.
create or replace function pgq._queue_tokens(limits pgq.queue_limit, now timestamptz) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int := pgq._shards(limits);
begin
    if limits.step is null then
        return null;
    end if;
    return (
        select sum(pgq._tokens(
            (select max(f.full_at) from pgq.flow f
             where f.queue_id = limits.queue_id and f.lane = pgq._shard_lane(s)),
            limits.step * v_count,
            pgq._shard_burst(pgq._burst(limits.rate, limits.burst), v_count, s),
            _queue_tokens.now))
        from generate_series(0, v_count - 1) s);
end
$$;
comment on function pgq._queue_tokens(pgq.queue_limit, timestamptz) is
    'How many messages the rate of a queue lets through now.';
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/server_findings.sql

-- Findings about the server, read with the rights of the caller: snapshots, settings, versions,
-- publications.
create or replace function pgq._server_findings(snapshot_age interval)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        -- A transaction that has an id holds back vacuum as a snapshot does.
        (select 'warning', null::text, 'long_transaction', a.xact_start,
                format('process %s (%s, %s) holds the oldest snapshot for %s, %s: %s', a.pid,
                       a.usename, nullif(a.application_name, ''),
                       pgq._span(clock_timestamp() - a.xact_start), a.state, left(a.query, 60)),
                format('select pg_terminate_backend(%s)', a.pid)
         from pg_stat_activity a
         where a.datname = current_database() and a.pid <> pg_backend_pid()
           and coalesce(a.backend_xmin, a.backend_xid) is not null
           and a.xact_start < clock_timestamp() - snapshot_age
         order by age(coalesce(a.backend_xmin, a.backend_xid)) desc, a.xact_start limit 3)
        union all
        select 'warning', null, 'prepared_transaction', p.prepared,
               format('prepared transaction %s (%s) holds back vacuum', p.gid, p.owner),
               format('rollback prepared %L', p.gid)
        from pg_prepared_xacts p
        where p.database = current_database() and p.prepared < clock_timestamp() - snapshot_age
        union all
        select 'warning', null, 'idle_slot', null,
               format('replication slot %s is unused and holds back vacuum', s.slot_name),
               format('select pg_drop_replication_slot(%L)', s.slot_name)
        from pg_replication_slots s
        where coalesce(s.xmin, s.catalog_xmin) is not null and not s.active
        union all
        select 'critical', null, 'autovacuum_off', null,
               format('setting %s is off: tables and indexes grow', s.name),
               format('alter system set %I = on; select pg_reload_conf()', s.name)
        from pg_settings s
        where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
        union all
        select 'critical', null, 'autovacuum_off', null,
               format('table %s: autovacuum is off for it', c.oid::regclass),
               format('alter table %s reset (autovacuum_enabled)', c.oid::regclass)
        from pg_class c
        where c.relnamespace = 'pgq'::regnamespace
          and exists (select from unnest(c.reloptions) o
                      where o ~* '^autovacuum_enabled=(f|n|0|of)')
        union all
        select 'critical', null, 'version', null,
               format('extension pgq: the catalog says %s, the code is %s', e.extversion,
                      pgq.version()), 'alter extension pgq update'
        from pg_extension e where e.extname = 'pgq' and e.extversion <> pgq.version()
        union all
        -- Without a replica identity UPDATE and DELETE fail as soon as the table is published.
        select 'critical', null, 'replica_identity', null,
               format('publication %s has table %s, which has no replica identity',
                      string_agg(distinct t.pubname, ', '), c.oid::regclass),
               format('alter table %s replica identity full', c.oid::regclass)
        from pg_publication_tables t
        join pg_publication p on p.pubname = t.pubname and (p.pubupdate or p.pubdelete)
        join pg_class c on c.relname = t.tablename and c.relnamespace = 'pgq'::regnamespace
        where t.schemaname = 'pgq'
          and (c.relreplident = 'n' or c.relreplident = 'd' and not exists (
              select from pg_index i where i.indrelid = c.oid and i.indisprimary))
        group by c.oid;
end
$$;
comment on function pgq._server_findings(interval) is 'Findings about the server.';

grant execute on function pgq._server_findings, pgq.version to pg_monitor;
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/span.sql

-- A duration as readable text, such as 5 min.
create or replace function pgq._span(span interval) returns text
language sql immutable parallel safe
return (
    select case when s >= 129600 then round(s / 86400) || ' d'
                when s >= 5400 then round(s / 3600) || ' h'
                when s >= 90 then round(s / 60) || ' min'
                else greatest(round(s), 0) || ' s' end
    from extract(epoch from span) s);
comment on function pgq._span(interval) is 'A duration as readable text, such as 5 min.';

grant execute on function pgq._span to pg_monitor;
$pgq_script$;
    execute $pgq_script$
-- sql/82_findings/usage_findings.sql

-- Findings about filters that match nothing, full lanes, relays and schedules.
create or replace function pgq._usage_findings(queues int[], now timestamptz)
returns setof pgq._finding
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select 'warning', q.name, 'filter_matches_nothing', f.created_at,
               case when sum(h.tested) = 0 then format(
                   'claims with the filter %s find no lane that can match, and messages wait',
                   left(f.document::text, 100))
                   else format('claims with the filter %s tested %s messages, and none matched',
                               left(f.document::text, 100), pgq._number(sum(h.tested))) end,
               format('select * from pgq.explain_filter(%L, %L)', q.name, f.document)
        from pgq.filter_hit h
        join pgq.filter f on f.filter_id = h.filter_id
        join pgq.queue q on q.queue_id = h.queue_id
        where queues is null or q.queue_id = any (queues)
        group by q.queue_id, f.filter_id
        having sum(h.matched) = 0
           -- Claims that the lanes rule out are recorded at most every five minutes, also while
           -- nothing waits. One value of a hashed key may have no message: that is no finding.
           and (sum(h.tested) >= 100 or sum(h.tested) = 0 and sum(h.claims) >= 3
               and f.lane_hashes is null and exists (
               select from pgq._queue_stats() s
               where s.queue = q.name and s.oldest_age > interval '1 min'))
           and max(h.used_at) > _usage_findings.now - interval '15 min'
        union all
        select 'warning', q.name, 'lanes', null,
               format('%s have more than %s combinations of values: others share a lane',
                      array_to_string(array(
                          select k from unnest(q.lane_keys) k where k not like '#%'), ', '),
                      pgq._limit('lanes')),
               format('select pgq.alter_queue(%L, lane_keys => ''{...}'') -- one key may have any '
                      'number of values, the others few', q.name)
        from pgq.queue q
        where (queues is null or q.queue_id = any (queues)) and q.lanes_full
        union all
        select 'critical', q.name, 'relay_silent', nullif(s.until, 'infinity'),
               format('relay %s to %s has sent no heartbeat lately', r.relay, r.destination),
               format('-- start it again, or remove its record: '
                      'select pgq.relay_report(%L, %L)', q.name, r.relay)
        from pgq.relay r join pgq.queue q on q.queue_id = r.queue_id
        left join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay
        where (queues is null or q.queue_id = any (queues))
          and (s.owner is not null and s.until > _usage_findings.now) is not true
        union all
        select 'warning', q.name, 'relay_fails', r.changed_at,
               format('relay %s: %s fails: %s', r.relay, r.destination, left(r.error, 200)),
               '-- its messages wait; the relay continues when the destination answers'
        from pgq.relay r join pgq.queue q on q.queue_id = r.queue_id
        join pgq.stream s on s.queue_id = r.queue_id and s.consumer = r.relay
        where (queues is null or q.queue_id = any (queues))
          and s.owner is not null and s.until > _usage_findings.now and r.circuit <> 'closed';
    if queues is null then
        return query
            select case when s.error is not null then 'critical' else 'warning' end, null::text,
                   case when s.error is not null then 'schedule_fails' else 'schedule_missed' end,
                   s.next_at,
                   case when s.error is not null
                        then format('schedule %s of topic %s fails: %s', s.name, s.topic, s.error)
                        else format('schedule %s of topic %s is %s late', s.name, s.topic,
                                    pgq._span(_usage_findings.now - s.next_at)) end,
                   case when s.error is not null then format(
                       'select * from pgq.schedules where name = %L', s.name)
                        else 'call pgq.maintain()' end
            from pgq.schedule s
            where s.error is not null or s.next_at < _usage_findings.now
                - pgq._limit('schedule_late_seconds') * interval '1 s';
    end if;
end
$$;
comment on function pgq._usage_findings(int[], timestamptz) is
    'Findings about filters that match nothing, full lanes, relays and schedules.';
$pgq_script$;
    execute $pgq_script$
-- sql/84_metrics/metrics.sql

-- Reads sessions with the rights of the caller, who may see more of them than the owner.
create or replace function pgq.metrics()
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
            -- What holds back vacuum in this database. A transaction with an id holds back the
            -- horizon as a snapshot does; so may a standby, through its walsender or its slot.
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
            select 'pgq_findings', jsonb_build_object('queue', coalesce(f.queue, ''),
                       'finding', f.finding, 'severity', f.severity), count(*)
            from pgq.findings() f group by 2
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
    'Metrics for Prometheus and similar systems: a row for each value, with its name, kind (gauge '
    'or counter), labels and help text. It takes milliseconds, whatever the backlog, also on a '
    'standby. Covers the queues that the caller may consume; the owner and members of pg_monitor '
    'see all queues and the database.';

-- For pg_monitor, as PostgreSQL's own statistics are.
grant usage on schema pgq to pg_monitor;
grant select on pgq._metric to pg_monitor;
grant execute on function pgq.metrics, pgq._metrics, pgq.now to pg_monitor;
$pgq_script$;
    execute $pgq_script$
-- sql/99_rights/revoke.sql

-- No routine of pgq is open to PUBLIC. pgq.grant_queue grants roles those that they need.
revoke all on all routines in schema pgq from public;

-- Nor is a type. Row types of tables and views are revoked when a role gets its first right (see
-- pgq._close_types), because pg_dump warns of each one that the script of an extension has revoked.
do $$
declare
    v_type pg_catalog.oid;
begin
    for v_type in
        select t.oid from pg_catalog.pg_type t
        left join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) t.typrelid
        where t.typnamespace operator(pg_catalog.=) 'pgq'::regnamespace
          and (t.typtype operator(pg_catalog.=) 'd' or c.relkind operator(pg_catalog.=) 'c')
          and pg_catalog.has_type_privilege('public', t.oid, 'usage')
    loop
        execute pg_catalog.format('revoke all on type %s from public', v_type::regtype);
    end loop;
end
$$;
$pgq_script$;
    perform pg_catalog.set_config('check_function_bodies', v_check_bodies, true);
    perform pg_catalog.set_config('search_path', v_search_path, true);
end
$pgq_install$;
