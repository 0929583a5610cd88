-- Asks for the slot to be emptied whose messages are past retention, and begins a new era when the
-- current one has lasted as long.
create or replace function pgq._turn_eras(now timestamptz, emptying boolean) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number bigint;
    v_retention interval := pgq._log_retention();
    v_started timestamptz;
    v_due smallint[] := '{}';
    v_over boolean;
begin
    -- An old snapshot does not see what has come back since (a replay), and would truncate it.
    if current_setting('transaction_isolation') <> 'read committed' then
        return;
    end if;
    -- First a look that locks nothing, where most calls end; then again with nobody else at it.
    for v_alone in 0 .. 1 loop
        v_number := pg_sequence_last_value('pgq.era_number');
        v_started := (select e.started_at from pgq.era e where e.number = v_number);
        -- An era's messages are old enough when the era after it is. Who archives them has a while
        -- longer for it.
        if emptying then
            -- One at a time: who holds one slot and waits for another ends in a deadlock with
            -- those who read the log.
            v_due := array(
                select e.slot from pgq.era e join pgq.era n on n.number = e.number + 1
                where e.number < v_number and e.emptied_at is null
                  and n.started_at + v_retention <= _turn_eras.now
                  and (e.archived_at is not null or not exists (
                      select from pgq.archive a
                      where n.started_at + v_retention + a.wait > _turn_eras.now))
                  and coalesce(e.retry_at, _turn_eras.now) <= _turn_eras.now
                order by e.number limit 1);
        end if;
        v_over := v_started + v_retention <= now
            and not exists (select from pgq.era e
                            where e.slot = (v_number + 1) % 3 and e.emptied_at is null)
            and exists (select from pgq.message m where m.era = v_number % 3);
        if v_started is not null and v_due = '{}' and not v_over then
            return;
        end if;
        if v_alone = 0 and not pgq._try_turn('era') then
            return;
        end if;
    end loop;

    if v_started is null then
        -- The first time, or the sequence moved in a transaction that was rolled back.
        insert into pgq.era as e (slot, number, started_at) values (v_number % 3, v_number, now)
        on conflict on constraint era_pkey do update
        set number = excluded.number, started_at = excluded.started_at, emptied_at = null,
            messages = null, checksum = null, archived_at = null;
        return;
    end if;
    if v_due <> '{}' then
        -- Its trigger empties the slot when the transaction commits, and not before: it locks it.
        -- Trying again must not take more than a twentieth of everybody's time.
        update pgq.era e set retry_at = _turn_eras.now + greatest(
            least(v_retention / 100, interval '10 s'),
            20 * pgq._era_patience(n.started_at + v_retention, v_retention))
        from pgq.era n
        where e.slot = any (v_due) and n.number = e.number + 1;
    end if;
    if v_over then
        insert into pgq.era as e (slot, number, started_at)
        values ((v_number + 1) % 3, v_number + 1, now)
        on conflict on constraint era_pkey do update
        set number = excluded.number, started_at = excluded.started_at, emptied_at = null,
            messages = null, checksum = null, archived_at = null;
        -- Last: a sequence does not come back when a transaction rolls back.
        perform setval('pgq.era_number', v_number + 1);
    end if;
end
$$;
comment on function pgq._turn_eras(timestamptz, boolean) is
    'Has the slot emptied that is past retention and begins a new era when it is time.';
revoke all on function pgq._turn_eras(timestamptz, boolean) from public;
