-- Lane keys as the queue stores them: without the word headers. A key that was hashed stays hashed
-- unless another is to be. With {auto} the queue keeps its keys.
create or replace function pgq._lane_keys(lane_keys text[], before text[]) returns text[]
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hashed boolean := exists (select from unnest(lane_keys) k where k like '#%');
begin
    if lane_keys = '{auto}' then
        return before;
    end if;
    return nullif(array(
        select case when '#' || n.key = any (before) and not v_hashed then '#' else '' end || n.key
        from unnest(lane_keys) with ordinality u (key, i)
        cross join lateral (
            select case when u.key ~ '^#?headers[.]' then replace(u.key, 'headers.', '')
                   else u.key end as key) n
        order by u.i), '{}');
end
$$;
comment on function pgq._lane_keys(text[], text[]) is 'Lane keys as the queue stores them.';
