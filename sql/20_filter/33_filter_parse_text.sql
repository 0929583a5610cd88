-- One text operator as SNS and EventBridge spell it -> leaf.
create or replace function pgq._filter_parse_text(
    operator text, operand jsonb, scope text, path text[], at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text := operator;
    v_operand jsonb := operand;
begin
    if operator in ('prefix', 'suffix') and jsonb_typeof(operand) = 'object' then
        if operand - 'equals-ignore-case' <> '{}'
                or jsonb_typeof(operand -> 'equals-ignore-case') is distinct from 'string' then
            perform pgq._filter_error('the operand must be a string', at,
                format('Write {"%s": "a"} or {"%1$s": {"equals-ignore-case": "a"}}.', operator));
        end if;
        v_name := 'ilike';
        v_operand := to_jsonb(
            case operator when 'suffix' then '%' else '' end
            || regexp_replace(operand ->> 'equals-ignore-case', E'([\\\\%_])', E'\\\\\\1', 'g')
            || case operator when 'prefix' then '%' else '' end);
    elsif operator = 'equals-ignore-case' then
        v_name := 'ieq';
    elsif operator = 'cidr' then
        perform pgq._filter_check_cidr(operand, at);
        return pgq._filter_node('cidr', scope, path, operand);
    end if;
    if jsonb_typeof(v_operand) is distinct from 'string' then
        perform pgq._filter_error('the operand must be a string', at,
            format('Write {"%s": "a"}, with one text.', operator));
    elsif operator = 'wildcard' and v_operand #>> '{}' ~ E'^(?:[^\\\\]|\\\\.)*\\*\\*' then
        perform pgq._filter_error('a wildcard follows a wildcard', at,
            E'Write one star for any text, \\* for a star itself.');
    end if;
    perform pgq._filter_check_pattern(v_name, v_operand, at);
    return pgq._filter_node(v_name, scope, path, v_operand);
end
$$;
comment on function pgq._filter_parse_text(text, jsonb, text, text[], text) is
    'Validates a text operator of SNS or EventBridge and gives its leaf.';
