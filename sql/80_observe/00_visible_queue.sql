-- The queues that the current user may consume. In a view current_user is the role that runs the
-- query. A role that may truncate the tables sees all queues.
create or replace view pgq._visible_queue with (security_barrier) as
select q.queue_id, q.name
from pgq.queue q
where has_table_privilege('pgq.queue'::regclass, 'truncate')
   or exists (
       select from pgq.queue_right r
       where r.queue_id = q.queue_id and r.right in ('consume', 'admin')
         and pg_has_role(r.role, 'usage'));
comment on view pgq._visible_queue is 'The queues that the current user may consume.';
revoke all on table pgq._visible_queue from public;
