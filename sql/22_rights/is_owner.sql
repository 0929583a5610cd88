-- Whether the caller may do everything, for SECURITY DEFINER functions: the owner, its members and
-- superusers may. The planner inlines the expression, because every call evaluates it.
create or replace function pgq._is_owner(caller name) returns boolean
language sql stable parallel safe
return coalesce(caller = current_user or pg_has_role(caller, current_user, 'usage'), false);
comment on function pgq._is_owner(name) is 'Whether the caller may do everything.';
