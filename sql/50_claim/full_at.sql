-- When the token bucket of a queue or a lane is full.
create or replace function pgq._full_at(queue_id int, lane bigint) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select f.full_at from pgq.flow f
        where f.queue_id = _full_at.queue_id and f.lane = _full_at.lane
        order by f.full_at desc limit 1);
end
$$;
comment on function pgq._full_at(int, bigint) is 'When a token bucket is full.';
