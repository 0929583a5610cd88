-- How many selected messages are in these states: ready, scheduled, line (group backlog), lease.
-- Locks nothing.
create or replace function pgq._count_selected(selection pgq._selection, places text[])
returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(sum(case when not selection.tested then pgq._set_size(s.ids) else (
            select count(*) from unnest(s.ids) u
            join pgq.message m on m.id >= lower(u) and m.id < upper(u)
            where pgq._is_selected(selection, m, s.attempt)) end), 0)::bigint
        from (
            select w.attempt, coalesce(w.ids * selection.ids, w.ids)
                       - coalesce(selection.spared, '{}') as ids
            from (
                select r.ids, r.attempt + 1 as attempt from pgq.ready r
                where r.queue_id = selection.queue_id and 'ready' = any (places)
                union all
                select c.ids, c.attempt + 1 from pgq.scheduled c
                where c.queue_id = selection.queue_id and 'scheduled' = any (places)
                union all
                select int8multirange(int8range(g.message_id, g.message_id + 1)), 1
                from pgq.group_line g
                where g.queue_id = selection.queue_id and 'line' = any (places)
                union all
                select l.ids, l.attempt from pgq.lease l
                where l.queue_id = selection.queue_id and 'lease' = any (places)
            ) w
        ) s
        where s.ids <> '{}');
end
$$;
comment on function pgq._count_selected(pgq._selection, text[]) is
    'How many selected messages are in these states.';
