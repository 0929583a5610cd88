-- Builds a filter: the header is this text.
create or replace function pgq.header_equals(key text, value text)
returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    if value is null then
        perform pgq._filter_error('the value is missing', 'value',
            'Give a text, or write {"key": null} for a header that is null.');
    end if;
    return jsonb_build_object(v_name, value);
end
$$;
comment on function pgq.header_equals(text, text) is
    'A filter for messages whose header is this text.';
