-- Makes the commit of this transaction wait for the disk if synchronous_commit is off. A checkpoint
-- outside of the database continues from this commit: a crash must not undo it.
create or replace function pgq._flush() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end
$$;
comment on function pgq._flush() is
    'Makes the commit of this transaction wait for the disk, even if synchronous_commit is off.';
