-- Takes up to n messages from the head of a queue, late rows first. A row of suspects is taken
-- alone.
create or replace function pgq._take_head(claim pgq._claim, head pgq._queue_head) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows record;
    v_size int := 0;
    v_needed bigint;
begin
    if num_nonnulls((head.late).places, head.place) > 0 then
        claim.lease_id := pgq._lease_token(claim.until);
    end if;
    if (head.late).places is not null then
        claim.part := 1;
        v_rows := pgq._take_rows(claim, (head.late).places[:claim.n]);
        claim.part := v_rows.part;
        claim.n := claim.n - v_rows.size;
        v_size := v_rows.size;
    end if;
    if claim.n > 0 and head.place is not null
       and (v_size = 0 or not ((head.late).suspect or head.suspect))
    then
        claim.low := head.rank;
        if head.places is null then
            v_size := v_size + pgq._take_some(claim, head.size);
        else
            -- As many of them as hold n messages.
            select count(*) filter (where s.ahead < claim.n) into v_needed
            from (select sum(r.size) over (order by r.rank) - r.size as ahead
                  from pgq.ready r where r.ctid = any (head.places)) s;
            head.places := array(
                select r.ctid from pgq.ready r where r.ctid = any (head.places)
                order by r.rank limit v_needed for update skip locked);
            v_rows := pgq._take_rows(claim, head.places);
            v_size := v_size + v_rows.size;
        end if;
    end if;
    return row(
        case when v_size > 0 then claim.lease_id end, v_size,
        -- Another claim may put back a part of these.
        case when head.size > 1 then array[head.place]
             when (head.late).size > 1 then (head.late).places end)::pgq._taken;
end
$$;
comment on function pgq._take_head(pgq._claim, pgq._queue_head) is
    'Takes messages from the head of a queue.';
