-- Truncates a slot of the log; false if it is in use. Waits for the lock for 40 ms: on a busy
-- server another session always holds it for a moment, and all later ones wait as long. If that is
-- too short, because readers follow each other closely, it waits longer the longer the slot is
-- overdue, well below deadlock_timeout. It does not wait for a holder whose transaction is older
-- than a second, such as pg_dump.
create or replace function pgq._truncate_slot(slot int, overdue interval) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '40ms'
as $$
begin
    -- Reset at the end of the function, because its SET clause names lock_timeout.
    perform set_config('lock_timeout', least(
        extract(epoch from current_setting('deadlock_timeout')::interval) * 1000 / 3,
        40 * (1 + extract(epoch from overdue) / 60))::int::text, true);
    if exists (
        select from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where l.granted and a.xact_start < clock_timestamp() - interval '1 s'
          and a.pid <> pg_backend_pid()
          and l.relation in (to_regclass('pgq.message_' || slot),
                             to_regclass('pgq.journal_' || slot))
          and l.database = (select d.oid from pg_database d where d.datname = current_database()))
    then
        return false;
    end if;
    case slot
        when 0 then
            lock table only pgq.message_0, only pgq.journal_0 in access exclusive mode;
            truncate pgq.message_0, pgq.journal_0;
        when 1 then
            lock table only pgq.message_1, only pgq.journal_1 in access exclusive mode;
            truncate pgq.message_1, pgq.journal_1;
        when 2 then
            lock table only pgq.message_2, only pgq.journal_2 in access exclusive mode;
            truncate pgq.message_2, pgq.journal_2;
    end case;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._truncate_slot(int, interval) is 'Truncates a slot of the log.';
