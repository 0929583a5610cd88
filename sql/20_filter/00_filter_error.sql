-- Refuses a filter document: what is wrong, where in the document, and what to write instead.
create or replace function pgq._filter_error(message text, at text, hint text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'QU004',
        message = 'invalid filter: ' || _filter_error.message,
        detail = 'At ' || _filter_error.at || '.',
        hint = _filter_error.hint;
end
$$;
comment on function pgq._filter_error(text, text, text) is
    'Raises QU004 with the place in the document as DETAIL and the cure as HINT.';
