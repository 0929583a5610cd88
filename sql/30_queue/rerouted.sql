-- Bindings have changed: forget what publishing has learnt about topics.
create or replace function pgq._rerouted() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Publishers compare the version with the routes that they see: no lock is needed. The update
    -- makes changes of bindings wait for each other.
    update pgq.routing set version = version + 1;
    delete from pgq.route
    where ctid = any (array(
        select r.ctid from pgq.route r
        where r.version < (select version from pgq.routing)
        for update skip locked));
end
$$;
comment on function pgq._rerouted() is 'Makes publishing learn its routes again.';
revoke all on function pgq._rerouted() from public;
