-- pgq's headers are an object of scalars, so that lanes and filters can use them. Other headers
-- are stored as text beside their scalars.
create or replace function pgmq._headers_in(headers jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if headers is null then
        return '{}'::jsonb;
    elsif jsonb_typeof(headers) = 'object' and headers <> '{}' and not headers ? 'x-pgmq-headers'
          and not headers @? '$.*.type() ? (@ == "array" || @ == "object")'
    then
        return headers;
    end if;
    return jsonb_build_object('x-pgmq-headers', headers::text) || coalesce((
        select jsonb_object_agg(h.key, h.value)
        from jsonb_each(case when jsonb_typeof(headers) = 'object' then headers else '{}' end) h
        where jsonb_typeof(h.value) not in ('array', 'object')
          and h.key <> 'x-pgmq-headers'), '{}'::jsonb);
end
$$;
comment on function pgmq._headers_in(jsonb) is 'The headers that pgq stores for those of pgmq.';
