-- Adds a right or takes it away; false if that changes nothing.
create or replace function pgq._change_right(
    queue text, role name, "right" text, granted boolean
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue;
    v_role regrole;
    v_changed boolean;
begin
    if _change_right.right is null
       or _change_right.right not in ('publish', 'consume', 'admin')
    then
        raise exception 'unknown right "%"', coalesce(_change_right.right, '<null>')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use publish, consume, or admin, which is both and more.';
    end if;
    select a.oid::regrole into v_role from pg_roles a where a.rolname = _change_right.role;
    if not found then
        raise exception 'role "%" does not exist', coalesce(_change_right.role, '<null>')
            using errcode = 'undefined_object', hint = 'Create it with CREATE ROLE.';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'rights cannot be changed under isolation level %',
            current_setting('transaction_isolation')
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Use READ COMMITTED: an old snapshot does not show all rights.';
    end if;
    perform pgq._lock_rights();
    v_queue := pgq._queue(_change_right.queue, suggest => true);
    perform pgq._gc_rights();
    if granted then
        insert into pgq.queue_right (queue_id, role, "right")
        values (v_queue.queue_id, v_role, _change_right.right)
        on conflict on constraint queue_right_pkey do nothing;
    else
        delete from pgq.queue_right r
        where r.queue_id = v_queue.queue_id and r.role = v_role
          and r.right = _change_right.right;
    end if;
    v_changed := found;
    perform pgq._set_access(v_role);
    return v_changed;
end
$$;
comment on function pgq._change_right(text, name, text, boolean) is
    'Adds a right or takes it away.';
