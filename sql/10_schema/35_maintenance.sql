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
    'Transactions that began later know the bindings of routing_version: pgq.check() relies on it.';
comment on column pgq.maintenance.counted_at is
    'When what had happened was last added to pgq.traffic; null: never.';
comment on column pgq.maintenance.counted_seen is
    'The snapshot that it was counted with: what that could not see is not counted yet.';
comment on column pgq.maintenance.counted_by is
    'The transaction that counted: what it did itself is not counted yet.';
comment on column pgq.maintenance.before_id is
    'The last id, and the pages of the journal''s slots, one count earlier: transactions that '
    'began since then may have committed after the last count.';
revoke all on table pgq.maintenance from public;
