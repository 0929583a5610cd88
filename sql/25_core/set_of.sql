-- The set of the given ids.
create or replace function pgq._set_of(ids bigint[]) returns int8multirange
language sql immutable parallel safe
return (
    select coalesce(range_agg(int8range(i, i + 1)), '{}'::int8multirange)
    from unnest(ids) i
);
comment on function pgq._set_of(bigint[]) is 'The set of the given ids.';
revoke all on function pgq._set_of(bigint[]) from public;
