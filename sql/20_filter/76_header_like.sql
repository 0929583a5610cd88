-- Builds a filter: the header matches this SQL pattern.
create or replace function pgq.header_like(key text, pattern text)
returns jsonb
language plpgsql immutable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := pgq._filter_header(key);
begin
    perform pgq._filter_check_pattern('like', to_jsonb(pattern), 'pattern');
    return jsonb_build_object(v_name, jsonb_build_object('$like', pattern));
end
$$;
comment on function pgq.header_like(text, text) is
    'A filter for messages whose header matches the pattern: % is any text, _ is one character,
\ escapes.';
