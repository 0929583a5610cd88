-- Takes up to n messages from the head, whatever its rows look like. Locks no more rows than are
-- needed: as many as hold n messages.
create or replace function pgq._take_some(claim pgq._claim, head_size int) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_needed record;
    v_places tid[];
    v_rows record;
begin
    -- Rows are mostly no smaller than the first one; if they are, count as many as can be needed.
    for v_most in reverse 1 .. 0 loop
        select count(*) filter (where s.ahead < claim.n) as count, sum(s.size) as size
        into v_needed
        from (
            select p.size, sum(p.size) over (order by p.rank rows unbounded preceding) - p.size
                       as ahead
            from (
                select q.rank, q.size from pgq.ready q
                where q.queue_id = claim.queue_id and q.rank >= claim.low
                  and (q.expires_at is null or q.expires_at > claim.claimed_at)
                order by q.rank
                limit case v_most when 1 then 1 + (claim.n - 1) / head_size else claim.n end
            ) p
        ) s;
        exit when v_needed.size >= claim.n;
    end loop;
    v_places := array(
        select r.ctid from pgq.ready r
        where r.queue_id = claim.queue_id and r.rank >= claim.low
          and (r.expires_at is null or r.expires_at > claim.claimed_at)
        order by r.rank limit v_needed.count for update skip locked);
    v_rows := pgq._take_rows(claim, v_places);
    return v_rows.size;
end
$$;
comment on function pgq._take_some(pgq._claim, int) is
    'Takes messages from the head of a queue with rows of any kind.';
