-- Does a regular expression begin at the start of a text, and never search?
create or replace function pgq._filter_is_anchored(pattern text)
returns boolean
language sql immutable strict parallel safe
return pattern operator(pg_catalog.~) E'^\\^[^|*+]*$'
    and pattern operator(pg_catalog.!~) E'\\{\\d+,\\}';
comment on function pgq._filter_is_anchored(text) is
    'Whether a regular expression matches at the start of a text only, and has bounds.';
