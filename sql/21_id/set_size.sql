-- How many ids a set holds.
create or replace function pgq._set_size(ids int8multirange) returns int
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_size bigint := upper(ids) - lower(ids);
    v_range int8range;
begin
    if int8multirange(range_merge(ids)) = ids then
        return coalesce(v_size, 0)::int;
    end if;
    v_size := 0;
    for v_range in select unnest(ids) loop
        v_size := v_size + upper(v_range) - lower(v_range);
    end loop;
    return v_size::int;
end
$$;
comment on function pgq._set_size(int8multirange) is 'The number of ids in a set.';
