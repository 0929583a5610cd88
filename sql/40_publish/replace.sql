-- Ends a waiting message that was taken out of its queue, because another message has its dedup
-- key.
create or replace function pgq._replace(
    queue pgq.queue, old pgq._withdrawn, by bigint, now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._record(queue.queue_id, 'replace', 0, old.ids, 'by message ' || by);
    perform pgq._wake_results(old.ids);
    if old.grouped then
        perform pgq._advance_groups(queue, old.ids, now);
    end if;
end
$$;
comment on function pgq._replace(pgq.queue, pgq._withdrawn, bigint, timestamptz) is
    'Ends a message that another replaces.';
