-- Text as a regular expression that matches just this text.
create or replace function pgq._regex_quote(literal text)
returns text
language sql immutable strict parallel safe
return pg_catalog.regexp_replace(literal, '([][\\.^$*+?(){}|])', '\\\1', 'g');
comment on function pgq._regex_quote(text) is
    'Escapes the characters that mean something in a regular expression.';
