create table pgq.scheduled (
    queue_id int not null,
    due_at   timestamptz not null,
    attempt  int not null,
    size     int not null,
    grouped  boolean not null default false,
    failures jsonb,
    ids      int8multirange not null
) with (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
create index scheduled_due_idx on pgq.scheduled (queue_id, due_at);
comment on table pgq.scheduled is 'Messages that become ready later: delayed ones and retries.';
comment on column pgq.scheduled.attempt is 'Deliveries so far.';
comment on column pgq.scheduled.grouped is 'The messages are heads of ordering groups.';
revoke all on table pgq.scheduled from public;
