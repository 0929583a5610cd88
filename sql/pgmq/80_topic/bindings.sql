create or replace function pgmq._bindings(caller pgq.caller default current_user)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_owner boolean := pgq._is_owner(caller);
begin
    return query
        select b.pattern, b.queue_name, b.bound_at, b.compiled_regex
        from pgmq.topic_bindings b
        where v_owner or exists (
            select from pgq.queue q
            join pgq.queue_right r on r.queue_id = q.queue_id
            where q.name = b.queue_name and pg_has_role(_bindings.caller, r.role, 'usage'));
end
$$;
comment on function pgmq._bindings(pgq.caller) is
    'The bindings of the queues to which the caller has any right.';
