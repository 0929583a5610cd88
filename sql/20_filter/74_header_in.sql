-- Builds a filter: the header is one of these texts.
create or replace function pgq.header_in(key text, "values" text[])
returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    if cardinality("values") is null or array_position("values", null) is not null then
        perform pgq._filter_error('a value is missing', 'values', 'Give a list of texts.');
    end if;
    perform pgq._filter_check_list(to_jsonb("values"), true, 'values');
    return jsonb_build_object(v_name, jsonb_build_object('$in', to_jsonb("values")));
end
$$;
comment on function pgq.header_in(text, text[]) is
    'A filter for messages whose header is one of these texts.';
