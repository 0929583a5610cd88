-- The next ready rows of a queue, or of some of its lanes, in order, with about that many messages
-- in them. Locks nothing: another claim may have deleted or locked a row before it is taken.
create or replace function pgq._peek_rows(
    queue_id int, lanes pgq._lanes, low bigint, messages int
) returns table (place tid, rank bigint, lane_id int, attempt int, size int,
               expires_at timestamptz, ids int8multirange)
language plpgsql stable
set search_path = pg_catalog, pg_temp
-- @worker
as $$
#variable_conflict use_column
declare
    v_most int := least(_peek_rows.messages, 1000);
    v_scans int[] := case when lanes.hashes is null then lanes.kept else lanes.stale end;
begin
    return query
        select s.ctid, s.rank, s.lane_id, s.attempt, s.size, s.expires_at, s.ids
        from (
            select r.*, sum(r.size) over (order by r.rank) - r.size as ahead
            from (
                (select t.ctid, t.* from pgq.ready t
                 where not lanes.by_lane and t.queue_id = _peek_rows.queue_id and t.rank >= low
                   and pgq._in_lanes(lanes, t.lane_id, t.hash)
                 order by t.rank limit v_most)
                union all
                -- One scan for each lane, or for each hash.
                (select p.* from unnest(v_scans) l (lane_id)
                 cross join lateral (
                     select t.ctid, t.* from pgq.ready t
                     where lanes.by_lane and t.lane_id = l.lane_id and t.rank >= low
                     order by t.rank limit v_most) p
                 order by p.rank limit v_most)
                union all
                (select p.* from unnest(lanes.hashes) h (hash)
                 cross join lateral (
                     select t.ctid, t.* from pgq.ready t
                     where lanes.by_lane and t.queue_id = _peek_rows.queue_id
                       and t.hash = h.hash and t.rank >= low
                       and t.lane_id = any (lanes.kept) and t.lane_id <> all (lanes.stale)
                     order by t.rank limit v_most) p
                 order by p.rank limit v_most)
            ) r
        ) s
        where s.ahead < messages
        order by s.rank;
end
$$;
comment on function pgq._peek_rows(int, pgq._lanes, bigint, int) is
    'The next ready rows that may hold a match.';
