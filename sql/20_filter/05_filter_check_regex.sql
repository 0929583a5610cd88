-- Refuses a regular expression that PostgreSQL would take long to compile or to run.
create or replace function pgq._filter_check_regex(pattern text, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if pattern ~ E'^(?:[^\\\\]|\\\\[^1-9])*\\\\[1-9]' then
        perform pgq._filter_error('back-references are not supported', at,
            E'Write the regular expression without \\1 to \\9.');
    elsif pattern ~ E'^(?:[^[\\\\]|\\\\.|\\[\\^?\\]?(?:[^]\\\\]|\\\\.)*\\])*\\(\\?<?[=!]' then
        -- a lookahead makes the time for a text grow with the cube of its length
        perform pgq._filter_error('lookahead and lookbehind are not supported', at,
            'Write two tests: {"$regex": ...} for one, {"$not": {"key": {"$regex": ...}}} for the '
            'other.');
    elsif (select count(m.part[1]) from regexp_matches(pattern, E'\\\\.|\\(\\?|([?*+{])', 'g')
            as m (part)) > 12 then
        perform pgq._filter_error('the regular expression has too many quantifiers', at,
            'It has at most 12 of *, +, ? and {}.');
    end if;
    if pgq._filter_copies(pattern) > 1024 then
        perform pgq._filter_error('the regular expression repeats too much', at,
            'The bounds in braces, multiplied where groups are repeated, make at most 1024.');
    end if;
end
$$;
comment on function pgq._filter_check_regex(text, text) is
    'Validates a regular expression; QU004 if it could be slow.';
