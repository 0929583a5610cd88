-- Bindings have changed: makes the routing cache stale.
--
-- Publishers compare the version with the routes that they see: no lock is needed. A change holds
-- one stripe until its transaction ends. The owner may use all stripes; another role has three of
-- its own, chosen by its name, so its open transactions leave some for everybody else.
create or replace function pgq._rerouted(caller name default null) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_role boolean := caller is not null and not pgq._is_owner(caller);
    v_stripes int[] := array(
        select s.stripe from pgq.routing s
        order by case when v_role then hashtext(s.stripe || '.' || caller) else s.stripe end
        limit case when v_role then 3 end);
begin
    update pgq.routing r set version = r.version + 1
    where r.stripe = coalesce(
        (select s.stripe from pgq.routing s where s.stripe = any (v_stripes)
         order by s.stripe limit 1 for update skip locked),
        v_stripes[1 + pg_backend_pid() % cardinality(v_stripes)]);
    delete from pgq.route
    where ctid = any (array(
        select r.ctid from pgq.route r
        where r.version < (select sum(s.version) from pgq.routing s)
        for update skip locked));
end
$$;
comment on function pgq._rerouted(name) is
    'Invalidates the routing cache. The caller is null where pgq itself changes '
    'bindings.';
