-- The field name of a header, for the builders; refuses a key that they cannot use.
create or replace function pgq._filter_header(key text)
returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if key is null or key = '' then
        perform pgq._filter_error('the header key is missing', 'key', 'Name a header.');
    elsif key ~ E'\\.' then
        perform pgq._filter_error('invalid key ' || left(to_json(key)::text, 64), 'key',
            'A header key has no dots; write {"$path": ["headers", "a.b"], "$eq": ...} instead.');
    elsif key !~ '^[a-zA-Z][a-zA-Z0-9_-]*$' then
        perform pgq._filter_error('invalid key ' || left(to_json(key)::text, 64), 'key',
            'A header key is a letter, then letters, digits, _ and -.');
    end if;
    perform pgq._filter_parse_name(key, 'headers', '{}', 'key');
    -- these three names alone would be a scope
    return case when key in ('headers', 'payload', 'msg') then 'headers.' || key else key end;
end
$$;
comment on function pgq._filter_header(text) is
    'Validates the header key of a builder and gives its field name; QU004 if it cannot be used.';
