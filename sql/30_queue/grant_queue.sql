-- Gives a role a right to a queue; false if it has the right already.
create or replace function pgq.grant_queue(queue text, role name, "right" text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgq._change_right(queue, role, grant_queue.right, true);
end
$$;
comment on function pgq.grant_queue(text, name, text) is
    'Gives a role and its members a right to a queue. publish: publish to every topic that the '
    'queue receives. consume: claim from the queue and inspect it. admin: both, and alter, pause, '
    'subscribe, replay, discard and drop. The role also gets the privileges to call the functions '
    'of that right. Returns false if it has the right already.';
