-- Messages of each queue that were received, acknowledged and failed per second, over one to two
-- minutes: from the start of the previous minute to now, or to the last count if there are too many
-- uncounted events. No row: too many, and no count in the last five minutes.
create or replace function pgq._rates()
returns table (queue_id int, received float8, acked float8, failed float8, seconds float8)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_mark pgq.maintenance;
    v_now timestamptz := pgq.now();
    v_live boolean;
    v_from timestamptz;
    v_seconds float8;
begin
    select m.* into v_mark from pgq.maintenance m;
    v_live := pgq._is_live();
    if not v_live then
        if (v_mark.counted_at between v_now - interval '5 min' and v_now) is not true then
            return;
        end if;
        v_now := v_mark.counted_at;
    end if;
    v_from := date_trunc('minute', v_now - interval '1 min');
    v_seconds := extract(epoch from v_now - v_from)::float8;
    return query
        select q.queue_id, coalesce(sum(t.size) filter (where t.event = 'in'), 0) / v_seconds,
               case when q.journal = 'all' then
                   coalesce(sum(t.size) filter (where t.event = 'ack'), 0) / v_seconds
               end,
               coalesce(sum(t.size) filter (where t.event in ('nack', 'bury', 'timeout')), 0)
                   / v_seconds,
               v_seconds
        from pgq.queue q
        left join (
            select t.queue_id, t.event, t.size
            from pgq.queue p join pgq.traffic t on t.queue_id = p.queue_id and t.minute >= v_from
            union all
            select u.queue_id, u.event, u.size from pgq._uncounted(true) u
            where v_live and u.minute >= v_from
            union all
            select b.queue_id, 'in', h.matches
            from pgq.binding_hit h join pgq.binding b on b.binding_id = h.binding_id
            where not h.added_up and h.last_at >= v_from and h.last_at <= v_now
        ) t on t.queue_id = q.queue_id
        group by q.queue_id;
end
$$;
comment on function pgq._rates() is
    'Messages of each queue that were received, acknowledged and failed per second.';
