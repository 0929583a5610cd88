create sequence pgq.lease_id maxvalue 6291455 cycle;
comment on sequence pgq.lease_id is
    'Tells leases of one row apart that end in the same second: the primary index does.';
revoke all on sequence pgq.lease_id from public;

-- A lease of several rows has no row that the index could compare with those of others. So its
-- numbers are never those of a lease of one row, and are looked up before they are given.
create sequence pgq.checked_lease_id minvalue 6291456 maxvalue 8388607 cycle;
comment on sequence pgq.checked_lease_id is
    'Tells leases apart that end in the same second and may have several rows, or are long.';
revoke all on sequence pgq.checked_lease_id from public;

create sequence pgq.endless_lease_id;
comment on sequence pgq.endless_lease_id is 'Numbers the leases that have no end.';
revoke all on sequence pgq.endless_lease_id from public;

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
-- Only of limited queues. Without the size: an ack of a part stays HOT.
create index lease_flow_idx on pgq.lease (queue_id, flow, lease_id) where flow is not null;
comment on table pgq.lease is 'What is being worked on: the sets of one claim, a row per attempt.';
comment on column pgq.lease.lease_id is
    'The token that ack, nack, bury and extend need; it begins with the second of its end.';
comment on column pgq.lease.part is
    'Messages of one claim with another past, or thousands with gaps between their ids, have rows '
    'of their own: 1, 2, ...; 0: the only row.';
comment on column pgq.lease.attempt is 'The number of this delivery, from 1.';
comment on column pgq.lease.grouped is 'The messages belong to ordering groups.';
comment on column pgq.lease.journal is
    'Whether an ack is recorded, as the queue wanted it when it was claimed.';
comment on column pgq.lease.holder is 'application_name of the claiming session.';
comment on column pgq.lease.key is 'The name that the caller gave to the claim.';
comment on column pgq.lease.flow is
    'What a limit on leased messages counts: the lane, or 0 for none; null: no such limit.';
comment on column pgq.lease.permits is
    'Its part of a limit on leased messages: the first ones, as many as it has messages left.';
comment on column pgq.lease.shared is
    'Others of the delivery were taken back already: what is left was not alone when it timed out.';
comment on column pgq.lease.runs is
    'Of a group there may be several messages: its head, and those behind it.';
revoke all on table pgq.lease from public;
