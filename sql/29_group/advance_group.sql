-- Makes the next message of the group backlog the head, after the old head has ended. Returns it
-- for the caller to admit; null if there is none. held: another transaction holds the group, and
-- nothing was changed.
create or replace function pgq._advance_group(
    queue_id int, group_key text, message_id bigint,
    out held boolean, out next_id bigint, out failures jsonb, out due_at timestamptz)
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_head bigint;
begin
    held := false;
    select h.message_id into v_head from pgq.group_head h
    where h.queue_id = _advance_group.queue_id and h.group_key = _advance_group.group_key
    for update skip locked;
    if not found then
        held := exists (
            select from pgq.group_head h
            where h.queue_id = _advance_group.queue_id
              and h.group_key = _advance_group.group_key);
        return;
    end if;
    if v_head <> message_id then
        return;  -- not the head: nothing has changed for the group
    end if;
    delete from pgq.group_line l
    where l.queue_id = _advance_group.queue_id and l.group_key = _advance_group.group_key
      and l.message_id = (
          select min(n.message_id) from pgq.group_line n
          where n.queue_id = _advance_group.queue_id and n.group_key = _advance_group.group_key)
    returning l.message_id, l.failures, l.due_at into next_id, failures, due_at;
    if next_id is null then
        delete from pgq.group_head h
        where h.queue_id = _advance_group.queue_id and h.group_key = _advance_group.group_key;
    else
        update pgq.group_head h set message_id = next_id
        where h.queue_id = _advance_group.queue_id and h.group_key = _advance_group.group_key;
    end if;
end
$$;
comment on function pgq._advance_group(int, text, bigint) is
    'Makes the next message of a group''s backlog the head of the group.';
