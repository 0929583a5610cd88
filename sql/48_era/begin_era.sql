-- Stores where an era begins, in the row of its slot: the end of the era that had the slot before.
create or replace function pgq._begin_era(number bigint, now timestamptz) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A publisher takes the id of a message before it reads the number of the era. So messages
    -- whose ids are taken from now on are in this era or a later one.
    insert into pgq.era as e (slot, number, started_at, first_id)
    values (_begin_era.number % 3, _begin_era.number, _begin_era.now,
            coalesce(pg_sequence_last_value('pgq.message_id'), 0) + 1)
    on conflict on constraint era_pkey do update
    set number = excluded.number, started_at = excluded.started_at,
        first_id = excluded.first_id, closed_xid = null,
        copied_xid = null, emptied_at = null, messages = null, checksum = null,
        archived_at = null;
end
$$;
comment on function pgq._begin_era(bigint, timestamptz) is
    'Stores the beginning of the current era.';
