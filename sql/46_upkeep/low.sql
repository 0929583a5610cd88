-- The low watermark of a queue, kept by each session in the setting pgq.low_<queue_id>. Nothing
-- else reads or writes that setting. Every role can write settings, so the value is signed with a
-- secret of the queue: a forged one, or one of another session, is ignored.
create or replace function pgq._low_tick(now timestamptz) returns bigint
language sql stable
return floor(date_part('epoch', now) * pgq._limit('ticks'))::bigint;
comment on function pgq._low_tick(timestamptz) is
    'The tick of a time. Upkeep runs and watermarks are renewed once per tick.';

create or replace function pgq._low_get(value text, secret text) returns pgq._low
language sql stable
return case when split_part(value, '#', 1)
                 = md5(split_part(value, '#', 2) || pg_backend_pid() || secret)
       then split_part(value, '#', 2)::pgq._low end;
comment on function pgq._low_get(text, text) is 'The low watermark in the value of the setting.';

create or replace function pgq._low_set(queue_id int, secret text, low text) returns text
language sql volatile
return set_config('pgq.low_' || queue_id,
                  md5(low || pg_backend_pid() || secret) || '#' || low, false);
comment on function pgq._low_set(int, text, text) is 'Stores the low watermark of a queue.';

-- Rows before the watermark that its snapshot could not see: redeliveries, higher priorities, late
-- commits. One probe of the index for each transaction that was running then; a join or = any
-- would walk over the whole index. Each probe reads at most "most" rows. Without rows that the
-- filter is known not to match.
create or replace function pgq._late_rows(
    queue_id int, low pgq._low, most int, filter_id bigint default null
)
returns pgq._late
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_late pgq._late;
begin
    select array_agg(n.place order by n.rank) filter (where n.rank < low.rank),
           min(n.rank) filter (where n.rank < low.rank),
           sum(n.size) filter (where n.rank < low.rank),
           bool_or(n.suspect) filter (where n.rank < low.rank), count(*)
    into v_late
    from (
        (select r.ctid as place, r.rank, r.size, r.suspect from pgq.ready r
         where r.queue_id = _late_rows.queue_id and r.xid >= pg_snapshot_xmax(low.seen)
           and r.unmatched_by is distinct from coalesce(_late_rows.filter_id, 0)
         order by r.xid limit most)
        union all
        select p.place, p.rank, p.size, p.suspect
        from (select pg_snapshot_xip(low.seen) as xid union all select low.own) i
        cross join lateral (
            select r.ctid as place, r.rank, r.size, r.suspect from pgq.ready r
            where r.queue_id = _late_rows.queue_id and r.xid = i.xid
              and i.xid < pg_snapshot_xmax(low.seen)
              and r.unmatched_by is distinct from coalesce(_late_rows.filter_id, 0)
            order by r.xid limit most) p
    ) n;
    return v_late;
end
$$;
comment on function pgq._late_rows(int, pgq._low, int, bigint) is
    'Ready rows before the low watermark that its snapshot could not see.';

-- Whether a fast path may look up late rows by one range of transactions, from the oldest that was
-- running: the range is short, and holds few rows of the queue.
create or replace function pgq._low_is_exact(queue_id int, seen pg_snapshot) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_first xid8 := pg_snapshot_xmin(seen);
    v_next xid8 := pg_snapshot_xmax(seen);
begin
    return v_first = v_next
        or v_next::text::bigint - v_first::text::bigint < pgq._limit('late_rows')
           and 20 > (
               select count(*) from (
                   select from pgq.ready r
                   where r.queue_id = _low_is_exact.queue_id and r.xid >= v_first and r.xid < v_next
                   order by r.xid limit 20) x);
end
$$;
comment on function pgq._low_is_exact(int, pg_snapshot) is
    'Whether few rows were inserted by transactions since the oldest running one.';
