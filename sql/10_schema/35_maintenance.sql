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
