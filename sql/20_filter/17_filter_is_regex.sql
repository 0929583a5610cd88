-- Does a text operator need a regular expression? Equality and prefixes do without.
create or replace function pgq._filter_is_regex(operator text, pattern text)
returns boolean
language sql immutable strict parallel safe
return case operator
    when 'prefix' then false
    when 'substr' then pattern operator(pg_catalog.<>) ''
    when 'like' then pattern operator(pg_catalog.!~) E'^[^\\\\%_]*%*$'
    when 'wildcard' then pattern operator(pg_catalog.!~) E'^[^\\\\*]*\\**$'
    else true end;
comment on function pgq._filter_is_regex(text, text) is
    'Whether a text operator runs as a regular expression.';
