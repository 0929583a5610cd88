-- Lets the next in line take the place of a head that is done. False if another transaction holds
-- the group.
create or replace function pgq._advance_group(
    queue pgq.queue, group_key text, message_id bigint, now timestamptz
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head bigint;
    v_next record;
begin
    select h.message_id into v_head from pgq.group_head h
    where h.queue_id = queue.queue_id and h.group_key = _advance_group.group_key
    for update skip locked;
    if not found then
        return not exists (
            select from pgq.group_head h
            where h.queue_id = queue.queue_id and h.group_key = _advance_group.group_key);
    end if;
    if v_head <> message_id then
        return true;  -- not the head: nothing has changed for the group
    end if;
    delete from pgq.group_line l
    where l.queue_id = queue.queue_id and l.group_key = _advance_group.group_key
      and l.message_id = (
          select min(n.message_id) from pgq.group_line n
          where n.queue_id = queue.queue_id and n.group_key = _advance_group.group_key)
    returning l.message_id, l.failures into v_next;
    if v_next.message_id is null then
        delete from pgq.group_head h
        where h.queue_id = queue.queue_id and h.group_key = _advance_group.group_key;
        return true;
    end if;
    update pgq.group_head h set message_id = v_next.message_id
    where h.queue_id = queue.queue_id and h.group_key = _advance_group.group_key;
    perform pgq._admit_heads(queue, array[v_next.message_id], v_next.failures, now);
    return true;
end
$$;
comment on function pgq._advance_group(pgq.queue, text, bigint, timestamptz) is
    'Lets the next in line take the place of a group''s head.';
revoke all on function pgq._advance_group(pgq.queue, text, bigint, timestamptz) from public;
