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
