-- Rotates the log by one step; returns whether there may be another one. Only maintain() does it.
--
-- A closed era whose messages are past retention is emptied in two transactions. The first copies
-- its unfinished messages forward. The second truncates the slot, when every snapshot sees the
-- copies, and when the lock is granted within a moment.
create or replace function pgq._rotate(now timestamptz, deadline timestamptz) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_number bigint := pg_sequence_last_value('pgq.era_number');
    v_retention interval := pgq._log_retention();
    v_era pgq.era;
begin
    if current_setting('transaction_isolation') <> 'read committed' or not pgq._try_lock('era') then
        return false;
    end if;
    if not exists (select from pgq.era e where e.number = v_number) then
        -- The first time, or the sequence moved in a transaction that was rolled back.
        perform pgq._begin_era(v_number, now);
    end if;
    update pgq.era e set closed_xid = pg_current_xact_id()
    where e.number < v_number and e.closed_xid is null;

    -- Messages of an era are old enough when the start of the next era is. An archiver gets extra
    -- time. No transaction may still publish into the era.
    select e.* into v_era from pgq.era e join pgq.era n on n.number = e.number + 1
    where e.number < v_number and e.emptied_at is null
      and n.started_at + v_retention <= _rotate.now
      and (e.archived_at is not null or not exists (
          select from pgq.archive a
          where n.started_at + v_retention + pgq._bounded(a.wait, pgq._limit('policy_years'))
              > _rotate.now))
      and pgq._is_past(e.closed_xid)
    order by e.number limit 1;
    if found then
        if v_era.copied_xid is null then
            if pgq._copy_forward(v_era.slot, deadline) then
                update pgq.era e set copied_xid = pg_current_xact_id()
                where e.number = v_era.number;
            end if;
            return true;
        elsif pgq._is_seen(v_era.copied_xid) then
            -- A replay or a new subscription may have brought finished messages back; the lock
            -- keeps others from doing so until this transaction ends.
            if not pgq._copy_forward(v_era.slot, deadline) then
                update pgq.era e set copied_xid = null where e.number = v_era.number;
                return true;
            elsif pgq._truncate_slot(v_era.slot, _rotate.now - v_retention - (
                select n.started_at from pgq.era n where n.number = v_era.number + 1))
            then
                update pgq.era e set emptied_at = _rotate.now where e.number = v_era.number;
                return true;
            end if;
        end if;
    end if;

    -- Last, because a rollback does not reset a sequence.
    if exists (select from pgq.era e
               where e.number = v_number
                 and e.started_at + greatest(v_retention, interval '1 s') <= _rotate.now)
       and not exists (select from pgq.era e
                       where e.slot = (v_number + 1) % 3 and e.emptied_at is null)
       and exists (select from pgq.message m where m.era = v_number % 3)
    then
        perform setval('pgq.era_number', v_number + 1);
        perform pgq._begin_era(v_number + 1, now);
        return true;
    end if;
    return false;
end
$$;
comment on function pgq._rotate(timestamptz, timestamptz) is 'Rotates the log by one step.';
