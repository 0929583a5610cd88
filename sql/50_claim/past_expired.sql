-- The first ready rows that have not expired, from a rank on, where many have expired: a claim must
-- not walk over a million of them. Reads a limited number of rows in order. If all of these have
-- expired, it skips the rest. An index of its own finds the rows that never expire, in order; of
-- the other rows, those that expire next are read. The result is sorted by rank. That is the order
-- of the queue, unless more rows than these are left and their times to live differ.
-- No rows: everything has expired. walked: all rows before this rank have expired. It is the rank
-- of the first row found, unless there may be others before it.
create or replace function pgq._past_expired(
    queue_id int, now timestamptz, low bigint, n int,
    out places tid[], out rank bigint, out size int, out suspect boolean, out walked bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_most constant int := pgq._limit('expired_rows');
    v_next constant int := greatest(n, v_most);  -- rows of one message each suffice
    v_count int;
begin
    select array_agg(w.place order by w.rank) filter (where w.lasts),
           min(w.rank) filter (where w.lasts), count(*)::int, max(w.rank)
    into places, rank, v_count, walked
    from (
        select r.ctid as place, r.rank,
               r.expires_at is null or r.expires_at > _past_expired.now as lasts
        from pgq.ready r
        where r.queue_id = _past_expired.queue_id and r.rank >= _past_expired.low
        order by r.rank limit v_most
    ) w;
    if places is null and v_count = v_most then
        select array_agg(o.place order by o.rank), min(o.rank),
               (count(*) filter (where o.expires))::int
        into places, rank, v_count
        from (
            (select r.ctid as place, r.rank, false as expires from pgq.ready r
             where r.queue_id = _past_expired.queue_id and r.expires_at is null and r.rank >= walked
             order by r.rank limit v_next)
            union all
            (select r.ctid, r.rank, true from pgq.ready r
             where r.queue_id = _past_expired.queue_id and r.expires_at > _past_expired.now
               and r.rank >= walked
             order by r.expires_at limit v_next)
        ) o;
        walked := case when v_count = v_next then walked else coalesce(rank, walked) end;
    else
        walked := rank;
    end if;
    select r.size, r.suspect into size, suspect from pgq.ready r where r.ctid = places[1];
end
$$;
comment on function pgq._past_expired(int, timestamptz, bigint, int) is
    'The first ready rows that have not expired, if many have.';
