-- Raises the error for an inserted message with an invalid priority or invalid headers.
create or replace function pgq._refuse_message(priority int, headers jsonb) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if priority not between -1000 and 1000 then
        perform pgq._refuse_publish('', '{}', priority, null);
    elsif jsonb_typeof(headers) <> 'object'
          or headers @? '$.*.type() ? (@ == "array" || @ == "object")'
    then
        raise exception 'headers must be an object of scalars'
            using errcode = 'invalid_parameter_value',
                  hint = 'Put nested values into the payload; filters can look there too.';
    end if;
end
$$;
comment on function pgq._refuse_message(int, jsonb) is
    'Raises the error for an inserted message with an invalid priority or invalid headers.';
