-- How many ids a set holds.
create or replace function pgq._set_size(ids int8multirange) returns int
language sql immutable parallel safe
return (
    select coalesce(sum(upper(r) - lower(r)), 0)::int
    from unnest(ids) r
);
comment on function pgq._set_size(int8multirange) is 'How many ids a set holds.';
revoke all on function pgq._set_size(int8multirange) from public;
