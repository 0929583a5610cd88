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
