-- Invariants of ready rows: rank, priority, expiry and lane are those of their messages.
create or replace function pgq._check_ready()
returns table (problem text, queue_id int, detail text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    return query
        select 'the rank of a ready row differs from that of its lowest id', r.queue_id,
               format('rank %s, ids %s', r.rank, r.ids)
        from pgq.ready r where pgq._rank_id(r.rank) <> lower(r.ids)
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
        select 'a queue has limits and no lock, or is not marked', q.queue_id, q.name
        from pgq.queue q
        where q.limited <> exists (select from pgq.queue_limit l where l.queue_id = q.queue_id)
           or q.limited and not exists (
               select from pgq.flow f
               where f.queue_id = q.queue_id and f.lane = 16 and f.full_at = 'epoch')
        union all
        select 'a message is in a lane with other values', r.queue_id,
               format('message %s, lane %s', m.id, l.label)
        from pgq.ready r join pgq.lane l on l.lane_id = r.lane_id
        cross join unnest(r.ids) i
        join pgq.message m on m.id >= lower(i) and m.id < upper(i)
        where l.label <> pgq._lane_label(m, l.lane_keys)
           or r.hash is distinct from case when pgq._hashed_key(l.lane_keys) is not null then
               pgq._lane_hash(pgq._lane_value(m, substr(
                   l.lane_keys[pgq._hashed_key(l.lane_keys)], 2))) end;
end
$$;
comment on function pgq._check_ready() is 'Verifies that ready rows are where claims find them.';
