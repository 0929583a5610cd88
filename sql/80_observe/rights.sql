-- The rights to queues. The owner sees all of them, other roles their own.
create or replace view pgq.rights with (security_barrier) as
select q.name as queue, a.rolname as role, r.right
from pgq.queue_right r
join pgq.queue q on q.queue_id = r.queue_id
join pg_roles a on a.oid = r.role
where has_table_privilege('pgq.queue'::regclass, 'truncate') or pg_has_role(r.role, 'usage');
comment on view pgq.rights is
    'Who has which right to which queue: all of them for the owner, their own for others.';
comment on column pgq.rights.role is 'The role; its members have the right too.';
comment on column pgq.rights."right" is 'publish, consume or admin.';
revoke all on table pgq.rights from public;
