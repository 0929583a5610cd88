-- The queues that the caller may consume; null: all of them, for the owner.
create or replace function pgq._visible_queues(caller name) returns int[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq._is_owner(caller) then
        return null;
    end if;
    return array(
        select distinct r.queue_id from pgq.queue_right r
        where r.right in ('consume', 'admin')
          and pg_has_role(_visible_queues.caller, r.role, 'usage'));
end
$$;
comment on function pgq._visible_queues(name) is 'The queues that the caller may consume.';
