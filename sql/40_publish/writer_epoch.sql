-- The last epoch that a writer has published.
create or replace function pgq.writer_epoch(writer text) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select w.epoch from pgq.writer w where w.writer = writer_epoch.writer);
end
$$;
comment on function pgq.writer_epoch(text) is
    'The last epoch that a writer has published with pgq.publish_staged; null: none.';
revoke all on function pgq.writer_epoch(text) from public;
