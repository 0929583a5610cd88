-- The n lowest ids of a set.
create or replace function pgq._first_ids(ids int8multirange, n bigint) returns int8multirange
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_range int8range;
    v_taken int8range[] := '{}';
    v_left bigint := n;
begin
    if isempty(ids) then
        return ids;
    end if;
    if int8multirange(range_merge(ids)) = ids then
        return int8multirange(int8range(lower(ids), least(lower(ids) + n, upper(ids))));
    end if;
    for v_range in select unnest(ids) loop
        if upper(v_range) - lower(v_range) >= v_left then
            return int8multirange(
                variadic v_taken || int8range(lower(v_range), lower(v_range) + v_left));
        end if;
        v_taken := v_taken || v_range;
        v_left := v_left - (upper(v_range) - lower(v_range));
    end loop;
    return ids;
end
$$;
comment on function pgq._first_ids(int8multirange, bigint) is 'The n lowest ids of a set.';
