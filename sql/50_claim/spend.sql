-- Takes tokens out of a bucket that is full at full_at. The new version of the row is at another
-- place of the index, where the next claim finds it first.
create or replace function pgq._spend(
    queue_id int, lane bigint, full_at timestamptz, step float8, tokens int, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_full timestamptz := greatest(full_at, now) + make_interval(secs => tokens * step);
begin
    update pgq.flow f set full_at = v_full
    where f.queue_id = _spend.queue_id and f.lane = _spend.lane and f.full_at = _spend.full_at
      and f.full_at > 'epoch';
    if not found then  -- the first tokens, or maintain() has removed a bucket that was full
        insert into pgq.flow (queue_id, lane, full_at)
        values (_spend.queue_id, _spend.lane, v_full);
    end if;
end
$$;
comment on function pgq._spend(int, bigint, timestamptz, float8, int, timestamptz) is
    'Takes tokens out of a bucket.';
