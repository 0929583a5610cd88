-- Scan cursors of filters, shared by all sessions: no ready row before the rank that the snapshot
-- could see holds a match.
create or replace function pgq._cursor_get(filter_id bigint, queue_id int) returns pgq._low
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return null;
    end if;
    return (
        select s.low from pgq.filter_scan s
        where s.filter_id = _cursor_get.filter_id and s.queue_id = _cursor_get.queue_id
        order by s.noted_at desc limit 1);
end
$$;
comment on function pgq._cursor_get(bigint, int) is 'The scan cursor of a filter.';

-- Whether to store a new cursor: the claim has tested many messages or skipped many rows, or the
-- cursor that it began with is a second old.
create or replace function pgq._cursor_is_due(
    low pgq._low, tested bigint, skipped bigint, now timestamptz
) returns boolean
language sql stable
return tested >= pgq._limit('cursor_tests') or skipped >= pgq._limit('cursor_rows')
    or low.tick is null or abs(pgq._low_tick(now) - low.tick) > pgq._limit('ticks');
comment on function pgq._cursor_is_due(pgq._low, bigint, bigint, timestamptz) is
    'Whether a claim stores a new scan cursor.';

-- Stores a cursor. Does not wait for another claim that stores one.
create or replace function pgq._cursor_set(
    filter_id bigint, queue pgq.queue, low pgq._low, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old record;
begin
    select s.ctid as place, (s.low).seen as seen into v_old from pgq.filter_scan s
    where s.filter_id = _cursor_set.filter_id and s.queue_id = queue.queue_id
    order by s.noted_at desc limit 1;
    if pg_snapshot_xmax(v_old.seen) > pg_snapshot_xmax(low.seen)
       or current_setting('transaction_isolation') <> 'read committed'
       -- The lanes may have changed since the queue was read: the scan may have left out rows.
       or not exists (select from pgq.queue q
                      where q.queue_id = queue.queue_id
                        and q.lane_keys is not distinct from queue.lane_keys
                        and q.unlaned_rows = queue.unlaned_rows)
    then
        return;
    end if;
    low.tick := pgq._low_tick(now);
    if v_old.place is null then
        insert into pgq.filter_scan (filter_id, queue_id, low, noted_at)
        values (_cursor_set.filter_id, queue.queue_id, _cursor_set.low, now);
    else
        update pgq.filter_scan s set low = _cursor_set.low, noted_at = now
        where s.ctid = (select o.ctid from pgq.filter_scan o
                        where o.ctid = v_old.place for update skip locked);
    end if;
end
$$;
comment on function pgq._cursor_set(bigint, pgq.queue, pgq._low, timestamptz) is
    'Stores the scan cursor of a filter.';
