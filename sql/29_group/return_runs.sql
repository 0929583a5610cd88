-- Returns failed or released messages of a lease that holds runs of groups. Later messages of the
-- same groups also leave the lease and return to the group backlog; no attempt is counted for them.
-- A failed or released message that is not the head of its group returns to the backlog, too. The
-- first messages of each group, at most "most", keep their failures, so that each is delivered
-- alone. Returns the remaining heads, which the caller retries or buries.
create or replace function pgq._return_runs(
    ended pgq.lease, failures jsonb, delay interval, now timestamptz, most int default 2147483647
) returns pgq.lease
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_due timestamptz := case when delay > interval '0' then now + delay end;
    v_found record;
    v_behind int8multirange;
begin
    with member as materialized (
        select m.id, m.group_key, coalesce(h.message_id = m.id, false) as is_head,
               row_number() over (partition by m.group_key order by m.id) as place
        from unnest(ended.ids) r join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        left join pgq.group_head h on h.queue_id = ended.queue_id and h.group_key = m.group_key
    ), behind as materialized (
        select m.id, m.group_key from pgq.lease l cross join unnest(l.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        join member e on e.group_key = m.group_key and e.place = 1 and m.id > e.id
        where l.lease_id = ended.lease_id and l.part = ended.part
    ), line as (
        insert into pgq.group_line (queue_id, group_key, message_id, failures, due_at)
        select ended.queue_id, e.group_key, e.id,
               case when e.place <= most then _return_runs.failures end, v_due
        from member e where not e.is_head
        union all
        select ended.queue_id, b.group_key, b.id, null, null from behind b
    )
    select count(*) as size,
           coalesce(range_agg(int8range(e.id, e.id + 1)) filter (where e.is_head), '{}') as heads,
           (select range_agg(int8range(b.id, b.id + 1)) from behind b) as behind
    into v_found from member e;
    if v_found.size < ended.size then
        perform pgq._refuse_snapshot();
    end if;
    v_behind := v_found.behind;
    if v_behind is not null then
        delete from pgq.lease l
        where l.lease_id = ended.lease_id and l.part = ended.part and l.ids <@ v_behind;
        update pgq.lease l set ids = l.ids - v_behind, size = pgq._set_size(l.ids - v_behind)
        where l.lease_id = ended.lease_id and l.part = ended.part;
        insert into pgq.journal (at, queue_id, event, attempt, size, lease_id, claimed_at, holder,
                                 client, ids)
        values (now, ended.queue_id, 'release', ended.attempt, pgq._set_size(v_behind),
                ended.lease_id, ended.claimed_at, ended.holder, ended.client, v_behind);
        insert into pgq.outcome (queue_id, event, size)
        values (ended.queue_id, 'release', pgq._set_size(v_behind));
    end if;
    ended.ids := v_found.heads;
    ended.size := pgq._set_size(ended.ids);
    return ended;
end
$$;
comment on function pgq._return_runs(pgq.lease, jsonb, interval, timestamptz, int) is
    'Returns messages after failed or released ones to the backlogs of their groups.';
