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
