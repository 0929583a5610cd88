-- Raises 40001 if the transaction reads with an old snapshot; called when messages were not found.
--
-- TRUNCATE empties an era also for snapshots from before, and those do not see where its unfinished
-- messages were carried either. Under READ COMMITTED every statement has a new snapshot, taken
-- after it has locked the log: what it does not find there is not there.
create or replace function pgq._refuse_snapshot() returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'an era of the log was emptied after this transaction began'
            using errcode = 'serialization_failure',
                  hint = 'Roll back and try again, best under READ COMMITTED.';
    end if;
end
$$;
comment on function pgq._refuse_snapshot() is
    'Raises 40001 if the transaction reads with an old snapshot.';
