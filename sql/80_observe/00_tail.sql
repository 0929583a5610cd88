-- Where the last 32 pages of a table begin.
create or replace function pgq._tail(relation regclass) returns tid
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return format('(%s,0)', greatest(
        pg_relation_size(relation) / current_setting('block_size')::bigint - 32, 0))::tid;
end
$$;
comment on function pgq._tail(regclass) is 'Where the last 32 pages of a table begin.';
revoke all on function pgq._tail(regclass) from public;
