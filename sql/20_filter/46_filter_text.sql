-- A text predicate without the item in front of it: the cheapest equivalent form.
create or replace function pgq._filter_text(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._filter_is_regex(operator, pattern) then
        return case
            when operator in ('prefix', 'substr') then ' starts with ' || to_json(pattern)::text
            when operator = 'like' and right(pattern, 1) = '%'
                then ' starts with ' || to_json(rtrim(pattern, '%'))::text
            when operator = 'wildcard' and right(pattern, 1) = '*'
                then ' starts with ' || to_json(rtrim(pattern, '*'))::text
            else ' == ' || to_json(pattern)::text end;
    elsif operator = 'substr' then
        return format(' like_regex %s flag "q"', to_json(pattern));
    end if;
    -- flag s: a dot matches a newline too, as everywhere else in PostgreSQL
    return format(' like_regex %s flag "%s"', to_json(pgq._filter_pattern(operator, pattern)),
        case when operator in ('ieq', 'ilike', 'iregex') then 'is' else 's' end);
end
$$;
comment on function pgq._filter_text(text, text) is
    'The jsonpath predicate of a text operator, without the item in front.';
