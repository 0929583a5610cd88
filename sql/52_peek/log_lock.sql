-- Keeps the live log from being truncated until the transaction ends, and tells what has been
-- archived since.
create or replace function pgq.log_lock(
    after bigint default null, topic text default null, caller pgq.caller default current_user
) returns table (era bigint, path text, slot int, is_new boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', log_lock.topic);
    end if;
    -- On the partitions too. What follows, here and in the transaction, has a newer snapshot.
    lock table pgq.message in access share mode;
    return query
        select a.era, a.path, e.slot::int,
               a.low is not null and a.era > coalesce(log_lock.after, -1)
        from pgq.archive_era a
        left join pgq.era e on e.number = a.era and e.emptied_at is null
        where a.low is not null and a.era > coalesce(log_lock.after, -1) or e.slot is not null
        order by a.era;
end
$$;
comment on function pgq.log_lock(bigint, text, pgq.caller) is
    'For readers of what pgq.log_parts has told, at the beginning of their transaction under READ '
    'COMMITTED: until it ends no slot of the log is truncated. Returns the eras whose copies are '
    'confirmed and that are still in a slot, which is to be left out, and those whose copies were '
    'confirmed after that era (is_new): what was live then is in them now.';
