-- How long the log keeps messages: the longest retention of any queue, since all share the log.
create or replace function pgq._log_retention() returns interval
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(max(pgq._bounded(q.retention, pgq._limit('retention_years'))),
                            interval '1 day')
            from pgq.queue q);
end
$$;
comment on function pgq._log_retention() is 'The shortest time for which the log keeps messages.';
