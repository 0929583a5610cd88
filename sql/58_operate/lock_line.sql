-- The next selected messages that wait in ordering groups, after a group key and an id. Locks their
-- groups, so that none of them advances meanwhile. Waits for publishers of these groups in key
-- order, which is the lock order of publishers too.
create or replace function pgq._lock_line(
    selection pgq._selection, after_key text, after_id bigint, n bigint,
    out keys text[], out ids bigint[])
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    select array_agg(x.group_key), array_agg(x.message_id) into keys, ids
    from (
        select g.group_key, g.message_id
        from pgq.group_line g join pgq.message m on m.id = g.message_id
        where g.queue_id = selection.queue_id
          and (g.group_key, g.message_id) > (after_key, after_id)
          and (selection.ids is null or selection.ids @> g.message_id)
          and (selection.spared is null or not selection.spared @> g.message_id)
          and pgq._is_selected(selection, m, 1)
        order by g.group_key, g.message_id limit n
    ) x;
    perform from pgq.group_head h
    where h.queue_id = selection.queue_id and h.group_key = any (keys)
    order by h.group_key for update;
end
$$;
comment on function pgq._lock_line(pgq._selection, text, bigint, bigint) is
    'Finds selected messages that wait in ordering groups, and locks the groups.';
