-- The next ready rows that may hold a match, in order, with about that many messages in them.
-- Takes no lock: what is found here may be gone, or another's, when it is taken.
create or replace function pgq._peek_rows(
    queue_id int, lanes int[], by_lane boolean, unseen pg_snapshot, after bigint, before bigint,
    messages int
) returns table ("row" tid, rank bigint, lane_id int, attempt int, size int,
               expires_at timestamptz, ids int8multirange)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_most int := least(_peek_rows.messages, 1000);
begin
    if unseen is not null then
        return query
            select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
            from (
                select r.ctid, r.* from pgq.ready r
                where r.queue_id = _peek_rows.queue_id and r.xid >= pg_snapshot_xmin(unseen)
                  and not pg_visible_in_snapshot(r.xid, unseen)
                  -- + 0: to be found by xid, because what is new is little
                  and r.rank + 0 > after and r.rank + 0 < before
                  and (lanes is null or r.lane_id is null or r.lane_id = any (lanes))
                offset 0
            ) s
            order by s.rank limit 1000;
    elsif by_lane then
        return query
            select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
            from (
                select r.*, sum(r.size) over (order by r.rank) - r.size as ahead
                from unnest(lanes) l (lane_id)
                cross join lateral (
                    select t.ctid, t.* from pgq.ready t
                    where t.lane_id = l.lane_id and t.rank > after
                    order by t.rank limit v_most
                ) r
                order by r.rank limit v_most
            ) s
            where s.ahead < messages
            order by s.rank;
    else
        return query
            select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
            from (
                select r.*, sum(r.size) over (order by r.rank) - r.size as ahead
                from (
                    select t.ctid, t.* from pgq.ready t
                    where t.queue_id = _peek_rows.queue_id and t.rank > after
                      and (lanes is null or t.lane_id is null or t.lane_id = any (lanes))
                    order by t.rank limit v_most
                ) r
            ) s
            where s.ahead < messages
            order by s.rank;
    end if;
end
$$;
comment on function pgq._peek_rows(int, int[], boolean, pg_snapshot, bigint, bigint, int) is
    'The next ready rows that may hold a match.';
revoke all on function pgq._peek_rows(int, int[], boolean, pg_snapshot, bigint, bigint, int)
    from public;
