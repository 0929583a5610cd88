-- Raises 40001 if the transaction reads with an old snapshot; called when messages were not found.
--
-- TRUNCATE empties an era for older snapshots too, and these do not see the copies of unfinished
-- messages either. Under READ COMMITTED every statement takes a new snapshot after it has locked
-- the log: a message that it does not find is not in the log.
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
