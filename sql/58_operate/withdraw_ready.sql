-- Takes selected messages, at most n, out of the ready rows of a queue, in delivery order.
create or replace function pgq._withdraw_ready(selection pgq._selection, n bigint)
returns setof pgq._withdrawn
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_low bigint := pgq._rank_first();
    v_left bigint := n;
    v_all record;
    v_found record;
    v_set pgq._withdrawn;
    v_missed record;
    v_tries int := 0;
begin
    -- Take whole rows first, many at a time; rows that others have locked are retried below.
    while not selection.tested and num_nonnulls(selection.ids, selection.spared, n) = 0 loop
        v_all := pgq._take_all_ready(
            selection.queue_id, v_low, 10 * pgq._limit('operate_rows'));
        exit when v_all.last is null;
        return query select * from unnest(v_all.sets);
        v_low := v_all.last + 1;
    end loop;
    v_low := pgq._rank_first();
    loop
        select array_agg(f.place) filter (where f.size > 0) as places,
               array_agg(f.ids) filter (where f.size > 0) as sets,
               max(f.rank) as last, count(*) as count
        into v_found
        from pgq._find_ready(selection, v_low, pgq._limit('operate_rows')) f;
        for v_set in
            select * from pgq._take_ready(
                selection.queue_id, v_found.places, v_found.sets, v_left)
        loop
            v_left := v_left - v_set.size;
            return next v_set;
        end loop;
        exit when v_left = 0;
        v_low := v_found.last + 1;
        -- A claim has locked these rows, and may put a part of their messages back.
        select array_agg(r.ctid) as places, min(r.rank) as rank into v_missed
        from (
            select x.ctid, x.rank, x.queue_id from pgq.ready x
            where x.ctid = any (v_found.places) offset 0
        ) r
        where r.queue_id = selection.queue_id;
        if v_missed.places is not null and v_tries < 5 and pgq._await_rows(v_missed.places) then
            v_low := v_missed.rank;
            v_tries := v_tries + 1;
        elsif v_found.count < pgq._limit('operate_rows') then
            exit;
        end if;
    end loop;
end
$$;
comment on function pgq._withdraw_ready(pgq._selection, bigint) is
    'Takes messages out of the ready rows of a queue.';
