-- The alternatives for one field; null for no list.
create or replace function pgq._entity_test(field text, patterns text[], types text[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tests jsonb := '[]';
begin
    if cardinality(types) is distinct from cardinality(patterns) and types is not null then
        raise exception 'a list of patterns and the list of their types differ in length'
            using errcode = 'invalid_parameter_value',
                  hint = 'Give one type, exact or regex, for each pattern; or none for all exact.';
    end if;
    if patterns is null then
        return null;
    elsif patterns = '{}' then
        raise exception 'a list of patterns is empty'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave the list out to let everybody through.';
    end if;
    if array_position(patterns, null) is not null then
        raise exception 'a list of patterns must not contain null'
            using errcode = 'invalid_parameter_value',
                  hint = 'For messages to everybody use broadcast_filter => true.';
    end if;
    for i in 1 .. cardinality(patterns) loop
        v_tests := v_tests || case coalesce(types[i], 'exact')
            when 'exact' then jsonb_build_object(field, patterns[i])
            when 'regex' then jsonb_build_object(field, jsonb_build_object('$regex', patterns[i]))
        end;
        if v_tests is null then
            raise exception 'unknown filter type "%"', types[i]
                using errcode = 'invalid_parameter_value', hint = 'Use exact or regex.';
        end if;
    end loop;
    return v_tests;
end
$$;
comment on function pgq._entity_test(text, text[], text[]) is 'The alternatives for one field.';
