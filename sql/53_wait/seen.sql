-- Whether this handler has seen the message; if not, records that it has now.
create or replace function pgq.seen(
    handler text, message_id bigint, size int default 100, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    -- Handlers belong to a role, so that no role can mark the work of another as done.
    v_role text := case when pgq._is_owner(caller) then '' else caller::text end;
begin
    if handler is null or handler = '' or message_id is null or size is null or size < 1 then
        raise exception 'seen needs a handler, a message id and a size of at least 1'
            using errcode = 'invalid_parameter_value',
                  hint = 'The handler is a name of yours, such as "billing:charge".';
    end if;
    -- Waits until a concurrent transaction that handles the same message has ended.
    insert into pgq.handled (role, handler, message_id, handled_at)
    values (v_role, seen.handler, seen.message_id, pgq.now())
    on conflict on constraint handled_pkey do nothing;
    if not found then
        return true;
    end if;
    delete from pgq.handled h
    where h.ctid = any (array(
        -- Locks only the rows to delete: OFFSET in the query with FOR UPDATE would lock all rows.
        select o.ctid from pgq.handled o
        where o.role = v_role and o.handler = seen.handler and o.handled_id <= (
            select l.handled_id from pgq.handled l
            where l.role = v_role and l.handler = seen.handler
            order by l.handled_id desc offset size limit 1)
        for update skip locked));
    return false;
end
$$;
comment on function pgq.seen(text, bigint, int, pgq.caller) is
    'Consumer-side deduplication. Returns true if the message is among the last size messages '
    'that the handler has seen. Otherwise it records the message and returns false. Call it in '
    'the transaction of the work: a rollback also undoes the record. Each role with rights has '
    'its own handlers.';
