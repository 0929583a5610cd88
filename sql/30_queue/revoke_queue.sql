-- Takes a right to a queue away from a role; false if it does not have it.
create or replace function pgq.revoke_queue(queue text, role name, "right" text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq._change_right(queue, role, revoke_queue.right, false);
end
$$;
comment on function pgq.revoke_queue(text, name, text) is
    'Takes a right to a queue away from a role, and the privileges that it no longer needs. The '
    'role keeps what it has by another right or as a member of another role. False if it does not '
    'have the right.';
