-- The owner sees all schedules, others their own.
create or replace view pgq.schedules with (security_barrier) as
select s.name, s.topic, s.payload, s.headers, s.priority, s.expires_in, s.cron, s.every,
       s.time_zone, s.missed, coalesce(r.rolname, s.role::text) as role,
       s.next_at is null as paused, s.last_at, s.last_id, s.next_at,
       pgq.now() - s.next_at as late, s.error
from pgq.schedule s
left join pg_roles r on r.oid = s.role
where has_table_privilege('pgq.schedule'::regclass, 'truncate')
   or pg_has_role(s.role, 'usage');
comment on view pgq.schedules is
    'The schedules, with their last and their next run: all of them for the owner, their own for '
    'others.';
comment on column pgq.schedules.role is
    'The role with whose rights the messages are published; null: the owner.';
comment on column pgq.schedules.last_at is 'When it last ran; null: never.';
comment on column pgq.schedules.last_id is 'The message of the last run.';
comment on column pgq.schedules.next_at is 'The next run; null: paused.';
comment on column pgq.schedules.late is
    'By how much the next run is overdue; negative: the time until the next run.';
comment on column pgq.schedules.error is 'Why the last run failed; null: it did not.';
revoke all on table pgq.schedules from public;
