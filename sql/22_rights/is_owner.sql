-- May the caller do everything? For functions that run with their owner's rights: the owner, its
-- members and superusers may. An expression that is inlined, because it is asked by every call.
create or replace function pgq._is_owner(caller name) returns boolean
language sql stable parallel safe
return coalesce(caller = current_user or pg_has_role(caller, current_user, 'usage'), false);
comment on function pgq._is_owner(name) is 'May the caller do everything?';
