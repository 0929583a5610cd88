-- Builds a filter: all of these filters match.
create or replace function pgq.all_of(variadic filters jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(cardinality(filters), 0) < 2 or array_position(filters, null) is not null then
        perform pgq._filter_error('all_of takes two filters or more', 'filters',
            'Write pgq.all_of(pgq.header_equals(''a'', ''1''), pgq.header_equals(''b'', ''2'')).');
    end if;
    return jsonb_build_object('$and', to_jsonb(filters));
end
$$;
comment on function pgq.all_of(jsonb[]) is
    'A filter for messages that match all of the given filters; at least two.';
