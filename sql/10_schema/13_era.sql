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
