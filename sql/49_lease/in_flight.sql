-- How many messages of a limited queue are leased, or of one of its lanes. Counted from the leases:
-- so nothing has to be repaired after a crash, an expiry, or an ack of a part. Leases before the
-- token are known to have ended.
create or replace function pgq._in_flight(queue_id int, lane bigint, first bigint) returns int
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if lane is null then
        return (
            select coalesce(sum(l.size), 0)::int from pgq.lease l
            where l.queue_id = _in_flight.queue_id and l.flow is not null
              and l.lease_id >= coalesce(first, 0));
    end if;
    return (
        select coalesce(sum(l.size), 0)::int from pgq.lease l
        where l.queue_id = _in_flight.queue_id and l.flow = lane
          and l.lease_id >= coalesce(first, 0));
end
$$;
comment on function pgq._in_flight(int, bigint, bigint) is
    'How many messages of a limited queue are leased.';
