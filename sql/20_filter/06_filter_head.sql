-- The plain text that a pattern begins with; if it ignores case, the first letter
-- or digit, in lower case.
create or replace function pgq._filter_head(operator text, pattern text)
returns text
language sql immutable strict parallel safe
return case
    when operator in ('like', 'wildcard') then substring(pattern from E'^[^*%_\\\\]*')
    when operator in ('ieq', 'ilike')
        then coalesce(lower(substring(pattern from '^[0-9A-Za-z]') collate "C"), '')
    else '' end;
comment on function pgq._filter_head(text, text) is 'The plain text that a pattern begins with.';
