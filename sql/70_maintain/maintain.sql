-- One slice of maintenance, about a second; returns whether more is left. Does nothing while
-- another session runs one.
create or replace function pgq._maintain() returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_deadline timestamptz := clock_timestamp() + interval '1 s';
    v_now timestamptz := pgq.now();
    v_queue pgq.queue;
    v_more boolean := false;
    v_moved int;
    v_count bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise warning 'the log is not rotated under isolation level %',
            current_setting('transaction_isolation')
            using hint = 'Call pgq.maintain() under READ COMMITTED, or the log grows.';
    end if;
    perform pgq._mark_lanes();  -- before this transaction has an id
    if not pgq._try_lock('maintain') then
        return false;
    end if;
    perform pgq._count_traffic(v_now);
    while pgq._run_schedules(v_now) > 0 and clock_timestamp() < v_deadline loop
        null;
    end loop;
    for v_queue in select q.* from pgq.queue q order by q.queue_id loop
        continue when starts_with(v_queue.name, 'temporary.')
            and pgq._drop_temporary(v_queue, v_now);
        -- This index scan marks the entries of dead rows that an earlier slice has left, so that no
        -- claim has to read them.
        perform from pgq.ready r where r.queue_id = v_queue.queue_id order by r.rank limit 1;
        v_count := 0;
        loop
            v_moved := pgq._upkeep(v_queue, null, null, v_now, pgq._limit('maintain_rows'),
                                   pgq._limit('maintain_messages'));
            exit when v_moved = 0;
            v_count := v_count + v_moved;
            if clock_timestamp() > v_deadline then
                v_more := true;
                exit;
            end if;
        end loop;
        v_more := v_more or v_count >= pgq._limit('maintain_messages') / 10;
        v_more := pgq._renew_rows(v_queue) or v_more;
        if v_queue.auto_lanes then
            v_more := pgq._choose_lanes(v_queue, v_now) or v_more;
        end if;
        if v_queue.lane_keys is not null
           or exists (select from pgq.lane l where l.queue_id = v_queue.queue_id)
        then
            v_more := pgq._gc_lanes(v_queue) or v_more;
        end if;
    end loop;
    v_more := pgq._gc_tables(v_now) or v_more;
    perform pgq._gc_flow(v_now);
    perform pgq._gc_orphans();
    perform pgq._gc_rights();
    if exists (select from pgq.queue_right r
               where not exists (select from pgq.queue q where q.queue_id = r.queue_id))
       and pgq._try_lock('right')
    then
        perform pgq._gc_access();
    end if;
    -- After a restore or pg_upgrade: a dump has no privileges of row types.
    if exists (select from pgq.queue_right)
       and exists (select from pg_type t
                   where t.typnamespace = 'pgq'::regnamespace and t.typtype = 'c'
                     and has_type_privilege('public', t.oid, 'usage'))
       and pgq._try_lock('right')
    then
        perform pgq._close_types();
    end if;
    v_more := pgq._rotate(v_now, v_deadline) or v_more;
    update pgq.maintenance m set last_at = v_now;
    -- routed_at is later than the snapshot that reads the version: newer transactions see it too.
    update pgq.maintenance m set routing_version = r.version, routed_at = clock_timestamp()
    from (select sum(s.version) as version from pgq.routing s) r
    where m.routing_version is distinct from r.version;
    if current_setting('transaction_isolation') = 'read committed' then
        perform pgq._begin_bindings();
    end if;
    return v_more;
end
$$;
comment on function pgq._maintain() is
    'Runs one slice of maintenance; returns whether more is left.';

-- A procedure that commits can neither set search_path nor be SECURITY DEFINER, so all names are
-- qualified. Inside a transaction or a function it cannot commit, so it does one slice.
create or replace procedure pgq.maintain(until_done boolean default true)
language plpgsql
as $$
declare
    v_context pg_catalog.text;
    v_alone pg_catalog.bool;
begin
    get diagnostics v_context = pg_context;  -- a line for each function that has called this one
    v_alone := pg_catalog.strpos(v_context, E'\n') operator(pg_catalog.=) 0
        and pg_catalog.statement_timestamp()
            operator(pg_catalog.=) pg_catalog.transaction_timestamp();
    -- A minute at most: under traffic there is always something left for the next call.
    for v_slice in 1 .. 60 loop
        exit when not pgq._maintain() or not v_alone or not until_done;
        commit;
    end loop;
end
$$;
comment on procedure pgq.maintain(boolean) is
    'Runs maintenance: expired leases, due and expired messages, lanes, statistics, and the '
    'rotation of the log, which only this procedure does. It works in slices of about a second, '
    'each a transaction, until nothing is left. Call it about every minute, from a consumer, the '
    'command line or pg_cron, as a statement of its own. With until_done => false, or inside a '
    'transaction, it runs one slice. Without it queues still work, but the log grows.';
