-- Deletes token buckets that are full, and the lock rows of lanes without leased messages: a lane
-- without a row gets a new one. Skips rows that claims have locked.
create or replace function pgq._gc_flow(now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.flow f
    where f.ctid = any (array(
        select b.ctid from pgq.flow b
        where case when b.full_at > 'epoch' then b.full_at <= _gc_flow.now
              else b.lane not between pgq._shard_lane(0) and pgq._shard_lane(15)
                   and not exists (select from pgq.lease l
                                   where l.queue_id = b.queue_id and l.flow = b.lane)
                   and not exists (select from pgq.flow c
                                   where c.queue_id = b.queue_id and c.lane = b.lane
                                     and c.full_at > 'epoch')
              end
        for update skip locked));
end
$$;
comment on function pgq._gc_flow(timestamptz) is
    'Deletes token buckets that are full, and unused lock rows of lanes.';
