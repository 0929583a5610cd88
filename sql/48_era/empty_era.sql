-- Empties a slot at the end of a transaction that has asked for it. A claim may be part of a long
-- transaction: deferred, the lock lasts for the commit alone. Whatever happens here, the
-- transaction itself goes through.
create or replace function pgq._empty_era() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_retention interval := pgq._log_retention();
    v_since timestamptz := (
        select e.started_at + v_retention from pgq.era e where e.number = new.number + 1);
begin
    if pgq._empty_slot(new.slot, pgq._era_patience(v_since, v_retention)) then
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
