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
