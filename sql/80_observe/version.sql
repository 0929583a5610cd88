-- The version of the installed code.
create or replace function pgq.version() returns text
language sql immutable parallel safe
return '@pgq_version@';
comment on function pgq.version() is 'The version of the installed code.';
