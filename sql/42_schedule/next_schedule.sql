-- When the next schedule publishes to a queue: its consumers sleep until then at most. Reads a
-- bounded number of schedules; if none of these is for the queue, the time of the last one.
create or replace function pgq._next_schedule(queue_id int) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select min(n.next_at) filter (where n.i = pgq._limit('schedules_ahead') or exists (
            select from pgq.binding b
            where b.queue_id = _next_schedule.queue_id
              and (b.regex is null and b.pattern = n.topic or n.topic ~ b.regex)))
        from (select s.next_at, s.topic, row_number() over (order by s.next_at) as i
              from pgq.schedule s where s.next_at is not null
              order by s.next_at limit pgq._limit('schedules_ahead')) n);
end
$$;
comment on function pgq._next_schedule(int) is
    'When the next schedule publishes to a queue.';
