-- The set of the given ids.
create or replace function pgq._set_of(ids bigint[]) returns int8multirange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(range_agg(int8range(i, i + 1)), '{}')
        from unnest(ids) i where i is not null);
end
$$;
comment on function pgq._set_of(bigint[]) is 'The set of the given ids.';
