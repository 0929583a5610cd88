-- The text that a pattern asks a text to end with; null for a pattern that asks for more.
create or replace function pgq._filter_suffix(operator text, pattern text)
returns text
language sql immutable strict parallel safe
return case operator
    when 'suffix' then pattern
    when 'wildcard' then substring(pattern from E'^\\*+([^*\\\\]+)$')
    when 'like' then substring(pattern from E'^%+([^%_\\\\]+)$') end;
comment on function pgq._filter_suffix(text, text) is
    'The text that a pattern asks a text to end with.';
