-- Builds a filter: any of these filters match.
create or replace function pgq.any_of(variadic filters jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(filters), 0) < 2 or array_position(filters, null) is not null then
        perform pgq._filter_error('any_of takes two filters or more', 'filters',
            'Write pgq.any_of(pgq.header_equals(''a'', ''1''), pgq.header_equals(''b'', ''2'')).');
    end if;
    return jsonb_build_object('$or', to_jsonb(filters));
end
$$;
comment on function pgq.any_of(jsonb[]) is
    'A filter for messages that match any of the given filters; at least two.';
