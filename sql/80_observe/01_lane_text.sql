-- The values of a lane as readable text; null: the overflow lane.
create or replace function pgq._lane_text(lane pgq.lane) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(jsonb_object_agg(u.key, lane.label -> (u.i - 1)::int) filter (
            where lane.label -> (u.i - 1)::int <> '[]'), '{}')::text
        from unnest(lane.lane_keys) with ordinality u (key, i)
        where lane.label is not null
        having count(*) > 0);
end
$$;
comment on function pgq._lane_text(pgq.lane) is 'The values of a lane as readable text.';
