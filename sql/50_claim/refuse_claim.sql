-- The errors of a claim from a queue that is missing, hidden from the caller, or an archive.
create or replace function pgq._refuse_claim(topic text, owner boolean) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgq._queue(topic, owner);  -- raises QU001
    raise exception 'queue "%" is an archive: it stores and does not deliver', topic
        using errcode = 'feature_not_supported',
              hint = 'Subscribe another queue to the topic, or read the log with pgq.read_log.';
end
$$;
comment on function pgq._refuse_claim(text, boolean) is
    'Raises an error for a queue that is missing or an archive.';
