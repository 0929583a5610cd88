-- Invariants of ordering groups: each has a head that can be delivered, and nothing overtakes it.
create or replace function pgq._check_groups()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select distinct 'a group has a line and no head', g.queue_id,
               format('group %s', g.group_key)
        from pgq.group_line g
        where not exists (select from pgq.group_head h
                          where h.queue_id = g.queue_id and h.group_key = g.group_key)
        union all
        select 'the head of a group is nowhere', g.queue_id,
               format('group %s, message %s', g.group_key, g.message_id)
        from (
            select g.queue_id,
                   range_agg(int8range(g.message_id, g.message_id + 1))
                   - coalesce((select range_agg(h.ids) from pgq._held() h
                               where h.queue_id = g.queue_id and h.place <> 'group_line'), '{}')
                   - coalesce((select range_agg(int8range(s.message_id, s.message_id + 1))
                               from pgq.group_stall s where s.queue_id = g.queue_id), '{}')
                   as missing
            from pgq.group_head g group by g.queue_id
        ) t
        join pgq.group_head g on g.queue_id = t.queue_id and t.missing @> g.message_id
        where t.missing <> '{}'
        union all
        select 'a message of a group is out of turn', x.queue_id, format('message %s', m.id)
        from (
            select h.queue_id, h.lease_id, generate_series(lower(i), upper(i) - 1) as id
            from pgq._held() h cross join unnest(h.ids) i
            where h.place in ('ready', 'scheduled', 'lease')
        ) x
        join pgq.message m on m.id = x.id
        where m.group_key is not null
          -- A lease may hold a run of a group: the head and others behind it.
          and not exists (select from pgq.group_head h
                          left join pgq.lease l on l.lease_id = x.lease_id and l.runs
                              and l.ids @> m.id and l.ids @> h.message_id and m.id > h.message_id
                          where h.queue_id = x.queue_id and h.group_key = m.group_key
                            and (h.message_id = m.id or l.lease_id is not null));
end
$$;
comment on function pgq._check_groups() is 'Verifies that ordering groups can advance in order.';
