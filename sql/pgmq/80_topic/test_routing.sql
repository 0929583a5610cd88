create or replace function pgmq.test_routing(routing_key text)
returns table (pattern text, queue_name text, compiled_regex text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgmq.validate_routing_key(routing_key);
    return query
        select b.pattern, b.queue_name, b.compiled_regex from pgmq._bindings() b
        where test_routing.routing_key ~ b.compiled_regex order by b.pattern;
end
$$;
comment on function pgmq.test_routing(text) is 'The bindings that a routing key matches.';
