create or replace function pgmq._read_grouped(
    queue_name text, vt int, qty int, mode text, caller pgq.caller default current_user
) returns setof pgmq.message_record
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_now timestamptz := pgq.now();
    v_lease interval := greatest(make_interval(secs => vt), interval '1 us');
    v_groups text[] := '{}';
    v_group record;
    v_size bigint := 0::bigint;
    v_ids bigint[];
    v_wanted int8multirange;
    v_claim pgq._claim;
    v_places tid[];
    v_sets int8multirange[];
    v_rows record;
begin
    if v_queue.paused or qty < 1 then
        return;
    end if;
    perform pgq._upkeep(v_queue, null, null, v_now);
    -- Locks groups, so that each has one reader at a time, and no more of them than this read
    -- needs. The next statement sees what the previous reader has taken.
    for v_group in
        select f.key, case mode when 'whole' then count(*) else 1 end as size
        from pgmq._free(queue_name) f group by 1 order by min(f.msg_id)
    loop
        continue when not pg_try_advisory_xact_lock(
            hashtextextended('pgmq ' || v_queue.queue_id || ' ' || v_group.key, 0));
        v_groups := v_groups || v_group.key;
        v_size := v_size + v_group.size;
        exit when v_size >= qty;
    end loop;
    v_ids := array(
        select f.msg_id from pgmq._free(queue_name) f
        where f.key = any (v_groups) and (mode <> 'head' or f.place = 1)
        order by case mode when 'rr' then f.place else f.head end, f.head, f.place
        limit qty);
    if v_ids = '{}' then
        return;
    end if;
    v_claim := row(v_queue.queue_id, pgq._lease_token(v_now + v_lease), 1, cardinality(v_ids),
                   v_now, v_now + v_lease, v_queue.journal = 'all', null, null,
                   null, null)::pgq._claim;
    v_wanted := pgq._set_of(v_ids);
    loop
        select array_agg(r.ctid order by r.rank), array_agg(r.ids * v_wanted order by r.rank)
        into v_places, v_sets
        from pgq.ready r where r.queue_id = v_queue.queue_id and r.ids && v_wanted;
        exit when v_places is null;
        v_rows := pgq._take_rows(v_claim, v_places, v_sets);
        exit when v_rows.size = 0;
        v_claim.part := v_rows.part;
        v_claim.n := v_claim.n - v_rows.size;
        exit when v_claim.n = 0;
    end loop;
    return query
        select m.id, m.attempt, m.published_at, v_now, m.lease_until,
               nullif(m.payload, 'null'), pgmq._headers_out(m.headers)
        from pgq._read_lease(v_claim.lease_id) m
        order by array_position(v_ids, m.id);
    perform set_config(pgmq._note(queue_name), v_claim.lease_id::text, false);
end
$$;
comment on function pgmq._read_grouped(text, int, int, text, pgq.caller) is
    'Reads messages in the order of their groups.';

create or replace function pgmq.read_grouped(queue_name text, vt int, qty int)
returns setof pgmq.message_record
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_grouped(queue_name, vt, qty, 'whole');
end
$$;
comment on function pgmq.read_grouped(text, int, int) is
    'Reads messages of the oldest group that is free, then of the next.';
