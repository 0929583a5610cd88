-- The regular expression of a text operator; NULL for a pattern that ends inside an escape.
create or replace function pgq._filter_pattern(operator text, pattern text)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_regex text;
begin
    case
        when operator in ('like', 'ilike') and strpos(pattern, E'\\') = 0 then
            v_regex := regexp_replace(
                replace(pgq._regex_quote(pattern), '_', '.'), '%+', '.*', 'g');
        when operator = 'wildcard' and strpos(pattern, E'\\') = 0 then
            v_regex := regexp_replace(pgq._regex_quote(pattern), E'(?:\\\\\\*)+', '.*', 'g');
        when operator in ('like', 'ilike') then
            if pattern ~ E'^(?:[^\\\\]|\\\\.)*\\\\$' then
                return null;
            end if;
            select coalesce(string_agg(case
                    when t.part[1] is not null then pgq._regex_quote(t.part[1])
                    when t.part[2] is not null then '.*'
                    when t.part[3] is not null then '.'
                    else pgq._regex_quote(t.part[4]) end, '' order by t.position), '')
            into v_regex
            from regexp_matches(pattern, E'\\\\(.)|(%+)|(_)|([^\\\\%_]+)', 'g')
                with ordinality as t (part, position);
        when operator = 'wildcard' then
            if pattern !~ E'^(?:[^\\\\]|\\\\[*\\\\])*$' then
                return null;
            end if;
            select coalesce(string_agg(case
                    when t.part[1] is not null then pgq._regex_quote(t.part[1])
                    when t.part[2] is not null then '.*'
                    else pgq._regex_quote(t.part[3]) end, '' order by t.position), '')
            into v_regex
            from regexp_matches(pattern, E'\\\\([*\\\\])|(\\*+)|([^\\\\*]+)', 'g')
                with ordinality as t (part, position);
        when operator = 'topic' then
            return pgq._topic_regex(pattern);
        when operator = 'cidr' then
            return pgq._filter_cidr(pattern::inet);
        when operator = 'ieq' then
            v_regex := pgq._regex_quote(pattern);
        when operator = 'suffix' then
            v_regex := '.*' || pgq._regex_quote(pattern);
        else
            return pattern;
    end case;
    if operator in ('ieq', 'ilike') then
        v_regex := pgq._filter_cases(v_regex);
    end if;
    -- an open end needs no anchor, and is cheaper without
    return case when v_regex like '.*%' then substr(v_regex, 3) || '$'
        when v_regex ~ E'[^\\\\]\\.\\*$' then '^' || left(v_regex, -2)
        else '^' || v_regex || '$' end;
end
$$;
comment on function pgq._filter_pattern(text, text) is
    'The regular expression of a text operator of the filter language.';
