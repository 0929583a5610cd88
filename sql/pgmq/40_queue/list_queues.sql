create or replace function pgmq.list_queues(caller pgq.caller default current_user)
returns setof pgmq.queue_record
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queues int[] := pgq._visible_queues(caller);
begin
    return query
        select q.name::varchar, coalesce(a.is_partitioned, false), coalesce(a.is_unlogged, false),
               q.created_at
        from pgq.queue q
        left join pgmq.asked_for a on a.queue_name = q.name
        where q.mode = 'queue' and (v_queues is null or q.queue_id = any (v_queues))
        order by q.queue_id;
end
$$;
comment on function pgmq.list_queues(pgq.caller) is
    'The queues that the caller may consume, also those that pgq.create_queue made.';

create or replace view pgmq.meta as select * from pgmq.list_queues();
comment on view pgmq.meta is 'The queues; pgmq has a table of this name.';
revoke all on table pgmq.meta from public;
