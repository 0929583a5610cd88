-- Verifies the laws of the stored state; every row returned is a defect.
create or replace function pgq."check"() returns table (problem text, queue_id int, detail text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        with held as (
            select 'ready' as place, r.queue_id, r.size, r.ids from pgq.ready r
            union all
            select 'scheduled', s.queue_id, s.size, s.ids from pgq.scheduled s
            union all
            select 'lease', l.queue_id, l.size, l.ids from pgq.lease l
            union all
            select 'dead_letter', d.queue_id, 1,
                   int8multirange(int8range(d.message_id, d.message_id + 1))
            from pgq.dead_letter d
            union all
            select 'group_line', g.queue_id, 1,
                   int8multirange(int8range(g.message_id, g.message_id + 1))
            from pgq.group_line g
        )
        select 'a set is empty', h.queue_id, h.place
        from held h where isempty(h.ids)
        union all
        select 'a set has another size than it says', h.queue_id,
               format('%s %s: %s', h.place, h.ids, h.size)
        from held h where h.size <> pgq._set_size(h.ids)
        union all
        select 'a message is in two places', t.queue_id,
               format('%s messages, once each: %s', t.total, t.once)
        from (
            select h.queue_id, sum(h.size) as total, pgq._set_size(range_agg(h.ids)) as once
            from held h group by h.queue_id
        ) t
        where t.total <> t.once
        union all
        select 'a set has ids of no message', t.queue_id,
               format('%s ids, %s messages', t.size, t.present)
        from (
            select h.queue_id, pgq._set_size(range_agg(h.ids)) as size,
                   (select count(*) from unnest(range_agg(h.ids)) r
                    join pgq.message m on m.id >= lower(r) and m.id < upper(r)) as present
            from held h where h.place <> 'dead_letter' group by h.queue_id
        ) t
        where t.size <> t.present
        union all
        select 'a message is in the log twice', null, format('message %s', m.id)
        from pgq.message m group by m.id having count(*) > 1
        union all
        select 'a set belongs to no queue', h.queue_id, h.place
        from held h
        where not exists (select from pgq.queue q where q.queue_id = h.queue_id)
        union all
        select 'a ready row does not stand where its lowest id belongs', r.queue_id,
               format('rank %s, ids %s', r.rank, r.ids)
        from pgq.ready r where r.rank - ((r.rank >> 49) << 49) <> lower(r.ids)
        union all
        select 'a ready row has another priority or expiry than its messages', r.queue_id,
               format('rank %s, message %s', r.rank, m.id)
        from pgq.ready r cross join unnest(r.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where r.rank >> 50 <> -m.priority
           or (r.expires_at is not null and r.expires_at is distinct from m.expires_at)
        union all
        select 'a ready row is in a lane that is not there', r.queue_id,
               format('lane %s', r.lane_id)
        from pgq.ready r
        where r.lane_id is not null
          and not exists (select from pgq.lane l
                          where l.lane_id = r.lane_id and l.queue_id = r.queue_id)
        union all
        select 'a ready row without a lane in a queue with lanes', r.queue_id, r.ids::text
        from pgq.ready r join pgq.queue q on q.queue_id = r.queue_id
        where r.lane_id is null and q.lane_keys is not null and not q.unlaned_rows
        union all
        select 'a message is in a lane with other headers', r.queue_id,
               format('message %s, lane %s', m.id, l.headers)
        from pgq.ready r join pgq.lane l on l.lane_id = r.lane_id
        cross join unnest(r.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.label is not null and l.label <> pgq._lane_label(m.headers, l.lane_keys)
        union all
        select 'a group has a line and no head', g.queue_id, format('group %s', g.group_key)
        from pgq.group_line g
        where not exists (select from pgq.group_head h
                          where h.queue_id = g.queue_id and h.group_key = g.group_key)
        union all
        select 'the head of a group is nowhere', t.queue_id, format('messages %s', t.missing)
        from (
            select g.queue_id,
                   range_agg(int8range(g.message_id, g.message_id + 1))
                   - coalesce((select range_agg(x.ids) from held x
                               where x.queue_id = g.queue_id and x.place <> 'group_line'), '{}')
                   - coalesce((select range_agg(int8range(s.message_id, s.message_id + 1))
                               from pgq.group_stall s where s.queue_id = g.queue_id), '{}')
                   as missing
            from pgq.group_head g group by g.queue_id
        ) t
        where t.missing <> '{}'
        union all
        select 'a message of a group is out of turn', x.queue_id, format('message %s', m.id)
        from (
            select h.queue_id, generate_series(lower(i), upper(i) - 1) as id
            from held h cross join unnest(h.ids) i
            where h.place in ('ready', 'scheduled', 'lease')
        ) x
        join pgq.message m on m.id = x.id
        where m.group_key is not null
          and not exists (select from pgq.group_head h
                          where h.queue_id = x.queue_id and h.group_key = m.group_key
                            and h.message_id = m.id)
        union all
        select 'two parts of a lease belong to different queues', min(l.queue_id),
               format('lease %s', l.lease_id)
        from pgq.lease l group by l.lease_id having count(distinct l.queue_id) > 1
        union all
        select distinct 'a lease does not know whether it holds groups', l.queue_id,
               format('lease %s', l.lease_id)
        from pgq.lease l cross join unnest(l.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.grouped <> (m.group_key is not null)
        union all
        select 'a name belongs to two claims', l.queue_id, format('key %s', l.key)
        from pgq.lease l where l.key is not null
        group by l.queue_id, l.key having count(distinct l.lease_id) > 1
        union all
        select distinct 'a stream holds a batch that it has finished', s.queue_id,
               format('lease %s, key %s', l.lease_id, l.key)
        from pgq.stream s
        join pgq.lease l on l.queue_id = s.queue_id
            and l.key ~ ('^stream ' || pgq._regex_quote(s.consumer) || ' [0-9]{1,18}$')
        where substring(l.key from '[0-9]+$')::bigint <= s.batch
        union all
        select 'a stream belongs to no queue', s.queue_id, s.consumer
        from pgq.stream s
        where not exists (select from pgq.queue q where q.queue_id = s.queue_id)
        union all
        select 'a relay belongs to no queue', r.queue_id, r.relay
        from pgq.relay r
        where not exists (select from pgq.queue q where q.queue_id = r.queue_id)
        union all
        select 'the current era is archived', null, format('era %s', e.number)
        from pgq.era e
        where e.archived_at is not null and e.number >= pg_sequence_last_value('pgq.era_number')
        union all
        select 'there is more than one archive', null, format('%s rows', count(*))
        from pgq.archive a having count(*) > 1
        union all
        select 'a right is void: its role is gone or may not use pgq', r.queue_id,
               format('%s to %s', r.right, r.role)
        from pgq.queue_right r
        where not exists (
            select from pg_namespace n cross join lateral aclexplode(n.nspacl) a
            where n.nspname = 'pgq' and a.grantee = r.role and a.privilege_type = 'USAGE');
end
$$;
comment on function pgq."check"() is
    'Verifies the laws of the stored state: every undelivered message is in exactly one '
    'place, sets '
    'and lanes are right, nothing dangles. Returns a row for each defect, so none is good. Reads '
    'everything: for tests, and for the doubtful.';
revoke all on function pgq."check"() from public;
