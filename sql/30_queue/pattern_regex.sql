-- The regular expression of a topic pattern, null for a plain topic; raises for a bad pattern.
create or replace function pgq._pattern_regex(pattern text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if pattern is null or pattern !~ '[*#]' then
        perform pgq._check_topic(pattern);
        return null;
    end if;
    -- 22023, not the QU004 of _topic_regex: a pattern is not a filter.
    if length(pattern) > 255 or pattern !~
        E'^([^[:space:][:cntrl:].*#]+|[*#])(\\.([^[:space:][:cntrl:].*#]+|[*#]))*$'
    then
        raise exception 'invalid topic pattern "%"', left(pattern, 80)
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words separated by single dots, at most 255 characters. A wildcard '
                      'is a whole word: * for one, # for any number, as in orders.* or orders.#.';
    end if;
    return pgq._topic_regex(pattern);
end
$$;
comment on function pgq._pattern_regex(text) is
    'The regular expression of a topic pattern; null for a plain topic.';
