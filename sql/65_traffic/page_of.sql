-- Where to begin to read the rows that were added since a table had this many pages: 32 pages
-- earlier, because sessions fill the page that they wrote last. A truncated table is read whole.
create or replace function pgq._page_of(relation regclass, pages int) returns tid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pages bigint := pg_relation_size(relation) / current_setting('block_size')::bigint;
begin
    return format('(%s,0)', greatest(
        case when pages <= v_pages then pages - 32 else 0 end,
        v_pages - pgq._limit('count_pages'), 0))::tid;
end
$$;
comment on function pgq._page_of(regclass, int) is
    'Where to begin to read the rows that were added since a table had this many pages.';
