-- Builds a filter: the header has another value. A missing header matches with include_missing.
create or replace function pgq.header_not_equals(
    key text, value text, include_missing boolean default false)
returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    if value is null then
        perform pgq._filter_error('the value is missing', 'value',
            'Give a text, or write {"key": {"$isNull": false}} for a header that has a value.');
    end if;
    return case when include_missing
        then jsonb_build_object('$not', jsonb_build_object(v_name, value))
        else jsonb_build_object(v_name, jsonb_build_object('$ne', value)) end;
end
$$;
comment on function pgq.header_not_equals(text, text, boolean) is
    'A filter for messages whose header has another value. A message without the header, or with
null, matches only with include_missing.';
