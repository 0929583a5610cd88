-- Whether the events that are not counted yet are few enough to be counted by a query.
create or replace function pgq._is_live() returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_mark pgq.maintenance;
    v_page constant bigint := current_setting('block_size')::bigint;
begin
    select m.* into v_mark from pgq.maintenance m;
    return coalesce(pg_sequence_last_value('pgq.message_id'), 0) - v_mark.before_id
            <= pgq._limit('live_messages')
        and (select sum(p.size - case when u.pages <= p.size then u.pages else 0 end)
             from unnest('{pgq.journal_0,pgq.journal_1,pgq.journal_2}'::regclass[],
                         v_mark.before_pages) u (slot, pages)
             cross join lateral (select pg_relation_size(u.slot) / v_page as size) p)
            <= pgq._limit('live_pages');
end
$$;
comment on function pgq._is_live() is
    'Whether the uncounted events are few enough to be counted by a query.';
