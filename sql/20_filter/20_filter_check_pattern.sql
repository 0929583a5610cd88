-- Refuses a text operand that is too long, or that PostgreSQL cannot compile.
-- Catching the error takes a subtransaction, which a parallel plan cannot start before
-- PostgreSQL 17.
create or replace function pgq._filter_check_pattern(operator text, pattern jsonb, at text)
returns void
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_pattern text := pattern #>> '{}';
    v_limit int := case when operator in ('regex', 'iregex') then 512 else 1024 end;
    v_reason text;
begin
    if jsonb_typeof(pattern) is distinct from 'string' then
        perform pgq._filter_error('the operand must be a string', at,
            'Text operators compare strings: {"key": {"$like": "order-%"}}');
    elsif length(v_pattern) > v_limit then
        perform pgq._filter_error('the pattern is too long', at,
            format('A pattern has at most %s characters.', v_limit));
    elsif operator in ('like', 'ilike', 'wildcard') then
        if pgq._filter_pattern(operator, v_pattern) is null then
            perform pgq._filter_error('the pattern has a stray backslash', at, case operator
                when 'wildcard' then E'Write \\* for a star and \\\\ for a backslash.'
                else E'Write \\\\ for a backslash, \\% and \\_ for the characters % and _.' end);
        elsif length(regexp_replace(v_pattern, case operator when 'wildcard'
                then E'\\\\.|[^*]|\\*+$' else E'\\\\.|[^%_]|%+$' end, '', 'g')) > 12 then
            perform pgq._filter_error('the pattern has too many wildcards', at,
                'A pattern has at most 12 wildcards before its end.');
        end if;
        return;
    elsif operator not in ('regex', 'iregex', 'topic') then
        return;
    elsif operator <> 'topic' then
        perform pgq._filter_check_regex(v_pattern, at);
    end if;
    begin
        perform '' ~ pgq._filter_pattern(operator, v_pattern);
    exception
        when sqlstate 'QU004' then
            get stacked diagnostics v_reason = pg_exception_hint;
            perform pgq._filter_error('the topic pattern is not valid', at, v_reason);
        when invalid_regular_expression then
            perform pgq._filter_error('the pattern does not compile', at,
                'PostgreSQL says: ' || sqlerrm || '.');
    end;
end
$$;
comment on function pgq._filter_check_pattern(text, jsonb, text) is
    'Validates the operand of a text operator; QU004 if it cannot be used.';
