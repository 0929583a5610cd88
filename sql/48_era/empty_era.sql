-- Empties a slot at the end of a transaction that has asked for it. A claim may be part of a long
-- transaction: deferred, the lock lasts for the commit alone. Whatever happens here, the
-- transaction itself goes through.
create or replace function pgq._empty_era() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_overdue double precision;
begin
    -- Where a short patience is always in vain, because claims are parts of longer transactions,
    -- the log must not grow for ever. Well below deadlock_timeout: others wait for this.
    select greatest(date_part('epoch', pgq.now() - e.started_at - r.span), 0)
           / greatest(date_part('epoch', r.span), 60)
    into v_overdue
    from pgq.era e cross join (values (pgq._log_retention())) r (span)
    where e.number = new.number + 1;
    if pgq._empty_slot(new.slot,
        interval '50 ms' * least(1 + 10 * coalesce(v_overdue, 0), 10))
    then
        update pgq.era e set emptied_at = pgq.now(), retry_at = null where e.slot = new.slot;
    end if;
    return null;
exception
    when query_canceled or admin_shutdown or crash_shutdown then
        raise;
    when others then
        raise warning 'slot % of the log could not be emptied: %', new.slot, sqlerrm
            using errcode = sqlstate, hint = 'It is tried again by later claims and by maintain().';
        return null;
end
$$;
comment on function pgq._empty_era() is 'Empties a slot of the log when a transaction commits.';
revoke all on function pgq._empty_era() from public;

do $$
begin
    if not exists (select from pg_catalog.pg_trigger
                   where tgrelid = 'pgq.era'::regclass and tgname = 'era_empty')
    then
        create constraint trigger era_empty after update of retry_at on pgq.era
            deferrable initially deferred
            for each row when (new.retry_at is not null and new.emptied_at is null)
            execute function pgq._empty_era();
    end if;
end
$$;
comment on trigger era_empty on pgq.era is 'Empties the slot when the transaction commits.';
