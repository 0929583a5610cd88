-- Makes a ready row of what is left of one that was taken.
create or replace function pgq._put_back("row" pgq.ready, ids int8multirange) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into pgq.ready (
        queue_id, lane_id, rank, attempt, size, xid, expires_at, grouped, failures, ids)
    values (
        "row".queue_id, "row".lane_id, (("row".rank >> 49) << 49) + lower(_put_back.ids),
        "row".attempt, pgq._set_size(_put_back.ids), pg_current_xact_id(), "row".expires_at,
        "row".grouped, "row".failures, _put_back.ids);
    -- Whoever looked at the row meanwhile may have gone to sleep.
    if exists (select from pgq.waiter) then
        perform pgq._wake("row".queue_id);
    end if;
end
$$;
comment on function pgq._put_back(pgq.ready, int8multirange) is
    'Makes a ready row of what is left of one that was taken.';
revoke all on function pgq._put_back(pgq.ready, int8multirange) from public;
