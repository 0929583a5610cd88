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
    'Takes a right to a queue away from a role, and the privileges that the role no longer needs. '
    'Other rights stay, also those as a member of another role. Returns false if the role does '
    'not have the right.';
