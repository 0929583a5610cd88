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
