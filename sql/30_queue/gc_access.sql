-- Removes the rights to dropped queues, and revokes the privileges that roles no longer need. The
-- caller holds the lock "right".
create or replace function pgq._gc_access() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_roles regrole[];
begin
    with gone as (
        delete from pgq.queue_right r
        where not exists (select from pgq.queue q where q.queue_id = r.queue_id)
        returning r.role
    )
    select array_agg(distinct g.role) into v_roles from gone g;
    perform pgq._set_access(r) from unnest(v_roles) r;
end
$$;
comment on function pgq._gc_access() is
    'Removes the rights to dropped queues, and their privileges.';
