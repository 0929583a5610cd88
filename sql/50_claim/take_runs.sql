-- Adds to a lease that was just written the messages that wait in line behind its group heads:
-- first deliveries of the same priority that match, up to the first that does not fit. Each group
-- gives about as many. Returns how many. Heads that have failed before stay alone.
create or replace function pgq._take_runs(
    queue pgq.queue, lease_id bigint, filter jsonb, room int, now timestamptz
) returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_row pgq.lease;
    v_run record;
    v_most int;
    v_left int := room;
begin
    if filter is not null then
        v_filter := pgq._find_filter(filter, queue.lane_keys);
    end if;
    for v_row in
        select l.* from pgq.lease l
        where l.lease_id = _take_runs.lease_id and l.grouped and l.attempt = 1
          and l.failures is null order by l.part
    loop
        -- Skips groups whose line an operator is changing. Does not block publishers.
        select array_agg(x.group_key) as keys, array_agg(x.id) as heads, min(x.priority) as priority
        into v_run
        from (
            select m.group_key, m.id, m.priority from unnest(v_row.ids) r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            join pgq.group_head h on h.queue_id = queue.queue_id and h.group_key = m.group_key
            for key share of h skip locked) x;
        while v_left > 0 and v_run.keys is not null loop
            v_most := ceil(v_left::float8 / cardinality(v_run.keys))::int;
            with line as (
                select k.key, k.head, g.message_id, row_number() over w as place,
                       bool_and(m.id > k.head and g.failures is null and g.due_at is null
                                and m.priority = v_run.priority
                                and coalesce(nullif(m.deliver_at, 'infinity') <= now, true)
                                and coalesce(m.expires_at > now, true)
                                and pgq._matches(v_filter.path, v_filter.scope, m, 1, now)
                               ) over w is true as fits
                from unnest(v_run.keys, v_run.heads) k (key, head)
                cross join lateral (
                    select l.message_id, l.failures, l.due_at from pgq.group_line l
                    where l.queue_id = queue.queue_id and l.group_key = k.key
                    order by l.message_id limit v_most) g
                left join pgq.message m on m.id = g.message_id
                window w as (partition by k.key order by g.message_id)
            ), chosen as (
                select l.* from line l where l.fits order by l.place, l.key limit v_left
            ), gone as (
                delete from pgq.group_line g using chosen c
                where g.queue_id = queue.queue_id and g.group_key = c.key
                  and g.message_id = c.message_id
                returning g.message_id, c.key, c.head
            ), open as (
                select g.key, g.head from gone g group by 1, 2 having count(*) = v_most
            )
            select (select array_agg(o.key order by o.key) from open o) as keys,
                   (select array_agg(o.head order by o.key) from open o) as heads,
                   v_run.priority as priority, count(*)::int as size,
                   coalesce(range_agg(int8range(g.message_id, g.message_id + 1)), '{}') as ids
            into v_run from gone g;
            v_row.ids := v_row.ids + v_run.ids;
            v_row.size := v_row.size + v_run.size;
            v_left := v_left - v_run.size;
        end loop;
        update pgq.lease l set runs = true, ids = v_row.ids, size = v_row.size
        where l.lease_id = v_row.lease_id and l.part = v_row.part;
    end loop;
    return room - v_left;
end
$$;
comment on function pgq._take_runs(pgq.queue, bigint, jsonb, int, timestamptz) is
    'Adds the messages after group heads to a lease.';
