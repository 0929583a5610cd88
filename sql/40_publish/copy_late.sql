-- Moves messages into the current era that a slow INSERT has put into an era that is closed now: it
-- read the era number before it computed the payloads. The archive may already have copied that
-- era, so finished messages would be truncated without being archived.
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
