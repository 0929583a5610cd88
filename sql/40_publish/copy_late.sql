-- Moves messages into the current era that a slow INSERT has put into one that is closed by now: it
-- took the number of the era before it computed their payloads. The copy of that era may have been
-- made, and messages that are finished would be truncated without one.
create or replace function pgq._copy_late(ids bigint[]) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.message m
    set era = pg_sequence_last_value('pgq.era_number') % 3
    where m.id = any (_copy_late.ids);
end
$$;
comment on function pgq._copy_late(bigint[]) is
    'Moves messages that were inserted into a closed era into the current one.';
