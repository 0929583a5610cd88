-- Which messages of a span some queue still has to deliver.
create or replace function pgq._unfinished(span int8multirange) returns int8multirange
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(range_agg(s.ids * span), '{}')
        from (
            select r.ids from pgq.ready r where r.ids && span
            union all
            select c.ids from pgq.scheduled c where c.ids && span
            union all
            select l.ids from pgq.lease l where l.ids && span
            union all
            select int8multirange(int8range(g.message_id, g.message_id + 1))
            from pgq.group_line g where span @> g.message_id
        ) s);
end
$$;
comment on function pgq._unfinished(int8multirange) is
    'The messages of a range that some queue still has to deliver.';
