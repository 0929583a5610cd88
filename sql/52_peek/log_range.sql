-- The range of ids in the log, and the open transactions that may still add smaller ids.
create or replace function pgq.log_range(
    topic text default null, slot int default null, caller pgq.caller default current_user
) returns table (low bigint, high bigint, publishers text[])
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'consume', log_range.topic);
    end if;
    select min(m.id), max(m.id) into low, high from pgq.message m
    where log_range.slot is null or m.era = log_range.slot;
    -- Read the locks after the ids: nextval() locks the sequence first, until the transaction ends.
    publishers := array(
        select distinct l.virtualtransaction from pg_locks l
        where l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.relation = 'pgq.message_id'::regclass and l.pid <> pg_backend_pid());
    return next;
end
$$;
comment on function pgq.log_range(text, int, pgq.caller) is
    'The smallest and the largest id in the log, or in one slot of it, and the open transactions '
    '(as pg_locks names them) that have published. When these have ended, the log up to the '
    'largest id no longer changes. Works on a standby, where it cannot list the transactions.';
