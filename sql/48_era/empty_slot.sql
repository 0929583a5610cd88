-- Truncates a slot of the ring after its unfinished messages have been carried forward; false if
-- somebody is using it, or if too many are left to carry, so that it has to be tried again.
-- Patience is how long everybody else may have to wait because this waits for a lock.
create or replace function pgq._empty_slot(slot int, patience interval) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = 0
as $$
begin
    -- Ends with the function, as what it has declared.
    perform set_config('lock_timeout', (extract(epoch from patience) * 1000)::int::text, true);
    -- Most of the work without a lock, then what is left of it with nobody looking.
    if pgq._carry_forward(slot, 100000) = 100000 then
        return false;
    end if;
    case slot
        when 0 then
            lock table only pgq.message_0, only pgq.journal_0 in access exclusive mode;
            perform pgq._carry_forward(slot, 2147483647);
            truncate pgq.message_0, pgq.journal_0;
        when 1 then
            lock table only pgq.message_1, only pgq.journal_1 in access exclusive mode;
            perform pgq._carry_forward(slot, 2147483647);
            truncate pgq.message_1, pgq.journal_1;
        when 2 then
            lock table only pgq.message_2, only pgq.journal_2 in access exclusive mode;
            perform pgq._carry_forward(slot, 2147483647);
            truncate pgq.message_2, pgq.journal_2;
    end case;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
end
$$;
comment on function pgq._empty_slot(int, interval) is
    'Truncates a slot of the ring after its unfinished messages have been carried forward.';
revoke all on function pgq._empty_slot(int, interval) from public;
