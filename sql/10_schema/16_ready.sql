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
