-- Makes ready rows from ids in a lane with a hashed key: ids of one hash may share rows of at most
-- size ids.
create or replace function pgq._add_hashed(
    queue_id int, lane_id int, priority int, back boolean, attempt int, expires_at timestamptz,
    failures jsonb, grouped boolean, ids bigint[], hashes int[], size int,
    suspect boolean default false
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if (select count(distinct h) > cardinality(_add_hashed.ids) / 2 from unnest(hashes) h) then
        -- Most values belong to a single message: grouping would cost more than it saves.
        insert into pgq.ready (
            queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
            failures, ids)
        select _add_hashed.queue_id, _add_hashed.lane_id,
               pgq._rank(_add_hashed.priority, back, u.id), _add_hashed.attempt, 1,
               pg_current_xact_id(), _add_hashed.expires_at, _add_hashed.grouped,
               _add_hashed.suspect, u.hash, _add_hashed.failures,
               int8multirange(int8range(u.id, u.id + 1))
        from unnest(_add_hashed.ids, hashes) u (id, hash);
        return;
    end if;
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, suspect, hash,
        failures, ids)
    select _add_hashed.queue_id, _add_hashed.lane_id,
           pgq._rank(_add_hashed.priority, back, min(s.id)), _add_hashed.attempt, count(*),
           pg_current_xact_id(), _add_hashed.expires_at, _add_hashed.grouped,
           _add_hashed.suspect, s.hash, _add_hashed.failures,
           range_agg(int8range(s.id, s.id + 1))
    from (
        select u.id, u.hash, row_number() over (partition by u.hash order by u.id) - 1 as i
        from unnest(_add_hashed.ids, hashes) u (id, hash)
    ) s
    group by s.hash, s.i / _add_hashed.size;
end
$$;
comment on function pgq._add_hashed(
    int, int, int, boolean, int, timestamptz, jsonb, boolean, bigint[], int[], int, boolean) is
    'Makes ready rows from ids in a lane with a hashed key.';
