-- Applies a JSON merge patch (RFC 7396): objects are merged key by key, null removes a key, any
-- other value replaces the old one.
create or replace function pgq._merge_patch(target jsonb, patch jsonb) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(patch) <> 'object' then
        return patch;
    end if;
    if jsonb_typeof(target) <> 'object' then
        target := '{}';
    end if;
    return coalesce((
        select jsonb_object_agg(
            coalesce(p.key, t.key),
            case when p.key is null then t.value else pgq._merge_patch(t.value, p.value) end)
        from jsonb_each(target) t full join jsonb_each(patch) p on p.key = t.key
        where p.key is null or p.value <> 'null'), '{}');
end
$$;
comment on function pgq._merge_patch(jsonb, jsonb) is
    'Applies a JSON merge patch (RFC 7396).';
