-- Every set of ids with its place: what a queue still has to deliver, and its dead letters.
create or replace function pgq._held()
returns table (place text, queue_id int, lease_id bigint, size int, ids int8multirange)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select 'ready', r.queue_id, null::bigint, r.size, r.ids from pgq.ready r
        union all
        select 'scheduled', s.queue_id, null, s.size, s.ids from pgq.scheduled s
        union all
        select 'lease', l.queue_id, l.lease_id, l.size, l.ids from pgq.lease l
        union all
        select 'dead_letter', d.queue_id, null, 1,
               int8multirange(int8range(d.message_id, d.message_id + 1))
        from pgq.letter d
        union all
        select 'group_line', g.queue_id, null, 1,
               int8multirange(int8range(g.message_id, g.message_id + 1))
        from pgq.group_line g;
end
$$;
comment on function pgq._held() is 'Every set of ids with its location.';
