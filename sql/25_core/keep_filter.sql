-- A filter in compiled form, kept in the cache for the next time.
create or replace function pgq._keep_filter(document jsonb, lane_keys text[]) returns pgq.filter
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._find_filter(document, lane_keys);
begin
    -- Two sessions may keep the same filter at once: either row is right, and nobody waits.
    if v_filter.filter_id is null and (select count(*) < 10000 from pgq.filter) then
        insert into pgq.filter (hash, document, lane_keys, scope, path, lane_path, lane_final)
        values (v_filter.hash, v_filter.document, v_filter.lane_keys, v_filter.scope,
                v_filter.path, v_filter.lane_path, v_filter.lane_final)
        returning * into v_filter;
    end if;
    return v_filter;
end
$$;
comment on function pgq._keep_filter(jsonb, text[]) is
    'A filter in compiled form, kept for the next time.';
revoke all on function pgq._keep_filter(jsonb, text[]) from public;
