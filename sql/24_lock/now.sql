-- The clock of all leases, delays and expiries. Tests replace this one function.
create or replace function pgq.now() returns timestamptz
language sql volatile parallel safe
return pg_catalog.clock_timestamp();
comment on function pgq.now() is 'The clock of leases, delays and expiries.';
