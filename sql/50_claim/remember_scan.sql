-- Remembers how far a filter has looked, unless somebody else is just remembering it.
create or replace function pgq._remember_scan(
    filter_id bigint, queue_id int, snapshot pg_snapshot, rank bigint
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.filter_scan s
    where s.filter_id = _remember_scan.filter_id and s.queue_id = _remember_scan.queue_id
    for update skip locked;
    if found then
        update pgq.filter_scan s
        set snapshot = _remember_scan.snapshot, rank = _remember_scan.rank
        where s.filter_id = _remember_scan.filter_id and s.queue_id = _remember_scan.queue_id
          -- A claim that began later knows more.
          and pg_snapshot_xmax(s.snapshot) <= pg_snapshot_xmax(_remember_scan.snapshot);
    elsif pg_try_advisory_xact_lock(
        hashtextextended(format('pgq.filter_scan %s %s', filter_id, queue_id), 0))
    then
        -- The lock keeps two first-comers from waiting for each other's uncommitted row.
        insert into pgq.filter_scan (filter_id, queue_id, snapshot, rank)
        values (_remember_scan.filter_id, _remember_scan.queue_id, _remember_scan.snapshot,
                _remember_scan.rank)
        on conflict on constraint filter_scan_pkey do nothing;
    end if;
end
$$;
comment on function pgq._remember_scan(bigint, int, pg_snapshot, bigint) is
    'Remembers how far a filter has looked.';
revoke all on function pgq._remember_scan(bigint, int, pg_snapshot, bigint) from public;
