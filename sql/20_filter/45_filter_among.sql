-- The current item (@) is one of these scalars.
create or replace function pgq._filter_among("values" jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    -- text is ordered by its UTF-8 bytes, as in jsonpath, whatever the database's encoding
    return (
        select pgq._filter_join('||', array_agg(g.condition order by g.type))
        from (
            select jsonb_typeof(v.value),
                format('(@.type() == "%s" && %s)', jsonb_typeof(v.value),
                    pgq._filter_search(array_agg(v.value::text order by
                        case jsonb_typeof(v.value) when 'number' then v.value::numeric end,
                        convert_to(v.value #>> '{}', 'UTF8'))))
            from jsonb_array_elements(_filter_among."values") as v (value)
            group by 1
        ) as g (type, condition));
end
$$;
comment on function pgq._filter_among(jsonb) is
    'The jsonpath condition of an item being one of several scalars.';
