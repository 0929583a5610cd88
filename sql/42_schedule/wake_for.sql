-- Wakes the consumers of the queues that receive a topic: they sleep until the next run of a
-- schedule at most, and have to read the time of a new one.
create or replace function pgq._wake_for(topic text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._wake(b.queue_id) from pgq.binding b
    where b.regex is null and b.pattern = topic or topic ~ b.regex;
end
$$;
comment on function pgq._wake_for(text) is
    'Wakes the consumers of the queues that receive a topic.';
