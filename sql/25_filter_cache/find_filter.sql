-- A filter in compiled form: from the cache, or compiled now (then its filter_id is null).
create or replace function pgq._find_filter(document jsonb, lane_keys text[]) returns pgq.filter
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
    v_hash bigint := jsonb_hash_extended(document, 0);
    v_tree jsonb;
begin
    select f.* into v_filter from pgq.filter f
    where f.hash = v_hash and f.document = _find_filter.document
      and f.lane_keys is not distinct from _find_filter.lane_keys
    order by f.filter_id limit 1;
    if found then
        -- Decompress a large path once: otherwise each test of a message does it, 80 us for 64 kB.
        -- An array never holds compressed elements.
        if pg_column_size(v_filter.path) > 1000 then
            v_filter.path := (array[v_filter.path])[1];
        end if;
    else
        v_tree := pgq._filter_parse(document);
        v_filter.hash := v_hash;
        v_filter.document := document;
        v_filter.lane_keys := lane_keys;
        v_filter.scope := pgq._filter_reads(v_tree);
        v_filter.path := pgq._filter_path(v_tree);
        v_filter.equal := pgq._filter_equal(v_tree);
        v_filter.lane_final := false;
        if lane_keys is not null then
            select pgq._filter_path(w.tree, 'message'), w.final
            into v_filter.lane_path, v_filter.lane_final
            from pgq._filter_project(
                v_tree, array(select k from unnest(lane_keys) k where k not like '#%')) w;
            v_filter.lane_hashes := pgq._lane_hashes(v_tree, lane_keys);
        end if;
    end if;
    return v_filter;
end
$$;
comment on function pgq._find_filter(jsonb, text[]) is 'A filter in compiled form, or QU004.';
