-- A filter in compiled form, kept in the cache for the next time.
create or replace function pgq._keep_filter(queue pgq.queue, document jsonb) returns pgq.filter
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._find_filter(document, queue.lane_keys);
begin
    if v_filter.filter_id is not null then
        return v_filter;
    end if;
    -- Two sessions may store the same filter at once: both rows are correct, and neither session
    -- waits. Each queue has its own limit, so that no queue can fill the cache of others.
    if (select count(*) < pgq._limit('filters') from pgq.filter f
        where f.queue_id = queue.queue_id)
    then
        insert into pgq.filter (queue_id, hash, document, lane_keys, scope, path, equal,
                                lane_path, lane_final, lane_hashes)
        values (queue.queue_id, v_filter.hash, v_filter.document, v_filter.lane_keys,
                v_filter.scope, v_filter.path, v_filter.equal, v_filter.lane_path,
                v_filter.lane_final, v_filter.lane_hashes)
        returning * into v_filter;
    end if;
    return v_filter;
end
$$;
comment on function pgq._keep_filter(pgq.queue, jsonb) is
    'Compiles a filter and stores it for later claims.';
