-- The values of a field of the payload, with those in arrays. Perhaps more than a filter tests,
-- never fewer.
create or replace function pgq._field_values(paths jsonpath[], payload jsonb) returns jsonb[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        select e.value
        from unnest(paths) p (path)
        cross join lateral jsonb_path_query(payload, p.path, silent => true) i (value)
        cross join lateral (
            select i.value
            union all
            select jsonb_path_query(i.value, '$[*][*][*][*]') where jsonb_typeof(i.value) = 'array'
        ) e);
end
$$;
comment on function pgq._field_values(jsonpath[], jsonb) is 'The values of a field of the payload.';
