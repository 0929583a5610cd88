-- What follows the item in a text predicate: the cheapest form that means the same.
create or replace function pgq._filter_text(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when operator = 'prefix' then ' starts with ' || to_json(pattern)::text
        when operator = 'substr' and pattern = '' then ' starts with ""'
        when operator = 'substr' then format(' like_regex %s flag "q"', to_json(pattern))
        when operator = 'like' and pattern ~ E'^[^\\\\%_]*$' then ' == ' || to_json(pattern)::text
        when operator = 'like' and pattern ~ E'^[^\\\\%_]*%+$'
            then ' starts with ' || to_json(rtrim(pattern, '%'))::text
        when operator = 'wildcard' and pattern ~ E'^[^\\\\*]*\\*+$'
            then ' starts with ' || to_json(rtrim(pattern, '*'))::text
        -- flag s: a dot matches a newline too, as everywhere else in PostgreSQL
        else format(' like_regex %s flag "%s"', to_json(pgq._filter_pattern(operator, pattern)),
            case when operator in ('ieq', 'ilike', 'iregex') then 'is' else 's' end)
        end;
end
$$;
comment on function pgq._filter_text(text, text) is
    'The jsonpath predicate of a text operator, without the item in front.';
revoke all on function pgq._filter_text(text, text) from public;
