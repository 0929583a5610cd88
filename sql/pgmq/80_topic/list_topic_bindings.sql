create or replace function pgmq.list_topic_bindings()
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select * from pgmq._bindings() b order by b.bound_at desc, b.pattern, b.queue_name;
end
$$;
comment on function pgmq.list_topic_bindings() is 'All bindings that the caller may see.';

-- In SQL, because a parameter and a column have the same name.
create or replace function pgmq.list_topic_bindings(queue_name text)
returns table (pattern text, queue_name text, bound_at timestamptz, compiled_regex text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select b.pattern, b.queue_name, b.bound_at, b.compiled_regex from pgmq._bindings() b
    where b.queue_name = $1 order by b.bound_at desc, b.pattern
$$;
comment on function pgmq.list_topic_bindings(text) is 'The bindings of a queue.';
