-- Prevents truncation of the live log until the transaction ends. Returns archived eras: those that
-- are still in a slot, and those after the given era.
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
    -- Locks the partitions too. Later statements, here and in the transaction, get newer snapshots.
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
    'Prevents the truncation of slots of the log until the transaction ends. Call it at the start '
    'of a READ COMMITTED transaction that reads what pgq.log_parts returned. Returns the eras '
    'with a confirmed copy that are still in a slot (do not read that slot), and the eras with a '
    'number greater than the argument after (is_new): messages that were in the live log before '
    'are now in these copies.';
