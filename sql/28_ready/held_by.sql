-- The messages that a queue holds, in whatever state.
create or replace function pgq._held_by(queue_id int) returns int8multirange
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(range_agg(h.ids), '{}')
        from (
            select r.ids from pgq.ready r where r.queue_id = _held_by.queue_id
            union all
            select s.ids from pgq.scheduled s where s.queue_id = _held_by.queue_id
            union all
            select l.ids from pgq.lease l where l.queue_id = _held_by.queue_id
            union all
            select int8multirange(int8range(d.message_id, d.message_id + 1))
            from pgq.letter d where d.queue_id = _held_by.queue_id
            union all
            select int8multirange(int8range(g.message_id, g.message_id + 1))
            from pgq.group_line g where g.queue_id = _held_by.queue_id
        ) h);
end
$$;
comment on function pgq._held_by(int) is 'The messages that a queue holds, in any state.';
