create table pgq.schedule (
    name       text not null,
    topic      text not null,
    payload    jsonb not null,
    headers    jsonb not null,
    priority   int not null,
    expires_in interval,
    cron       text,
    every      interval,
    time_zone  text not null,
    missed     text not null,
    -- By oid, so that a later role of the same name inherits nothing; shown and dumped by name.
    role       regrole,
    started_at timestamptz not null,
    next_at    timestamptz,
    last_at    timestamptz,
    last_id    bigint,
    error      text,
    constraint schedule_pkey primary key (name),
    constraint schedule_cron_or_every check (num_nonnulls(cron, every) = 1),
    constraint schedule_missed_known check (missed in ('skip', 'one', 'all'))
) with (fillfactor = 50);
create index schedule_next_idx on pgq.schedule (next_at);
comment on table pgq.schedule is
    'Messages that claims and maintain() publish at regular times.';
comment on column pgq.schedule.cron is
    'Five fields: minute, hour, day, month, weekday. A schedule has either cron or every.';
comment on column pgq.schedule.every is 'The interval between two runs, counted from started_at.';
comment on column pgq.schedule.time_zone is 'The zone of cron, and of the days of every.';
comment on column pgq.schedule.missed is
    'Missed runs: skip them, run one for all of them, or run all.';
comment on column pgq.schedule.role is
    'The role with whose rights the messages are published; null: the owner.';
comment on column pgq.schedule.started_at is 'Runs are counted from this time.';
comment on column pgq.schedule.next_at is 'The next run; null: paused.';
comment on column pgq.schedule.last_at is 'When it last ran; null: never.';
comment on column pgq.schedule.last_id is 'The message of the last run.';
comment on column pgq.schedule.error is 'Why the last run failed; null: it did not.';
revoke all on table pgq.schedule from public;

-- A parsed cron expression. A field that begins with * does not choose the day.
create type pgq._cron as (
    minutes  int[],
    hours    int[],
    days     int[],
    months   int[],
    weekdays int[],
    either   boolean         -- days and weekdays are both chosen: one of them is enough
);
comment on type pgq._cron is 'A parsed cron expression.';
revoke all on type pgq._cron from public;
