-- Releases the ownership of the archive; eras still wait for their copies.
create or replace function pgq.archive_end(owner text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgq.archive a set owner = null, until = null where a.owner = archive_end.owner;
    return found;
end
$$;
comment on function pgq.archive_end(text) is
    'Ends the ownership that pgq.archive_begin acquired. Returns false if another owner archives.';
