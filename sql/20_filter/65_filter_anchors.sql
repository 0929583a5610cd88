-- Conditions that a message must satisfy to match a tree, and that can be looked up. A choice is a
-- list of {"in", "path", "kind", "value"}; a match satisfies at least one of them. The result is a
-- list of choices, of which one is enough; [] if there is none. scope and prefix are those of the
-- element that an item stands for.
create or replace function pgq._filter_anchors(
    tree jsonb, scope text default null, prefix jsonb default '[]')
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kinds constant text[] := '{equal,prefix,range,text range,there,missing}';
    v_operator constant text := tree ->> 'op';
    v_value constant jsonb := tree -> 'value';
    v_base constant jsonb := case tree ->> 'in'
        when 'item' then jsonb_build_object('in', scope, 'path', prefix || (tree -> 'path'))
        else jsonb_build_object('in', tree -> 'in', 'path', tree -> 'path') end;
    v_there constant jsonb := jsonb_build_array(jsonb_build_array(v_base || '{"kind": "there"}'));
    v_choices jsonb := '[]';
    v_all jsonb := '[]';
    v_child jsonb;
begin
    if jsonb_typeof(tree) = 'boolean' then
        return '[]'::jsonb;
    elsif v_operator in ('and', 'or') then
        for v_child in select jsonb_array_elements(tree -> 'of') loop
            v_choices := pgq._filter_anchors(v_child, scope, prefix);
            if v_operator = 'and' then
                v_all := v_all || v_choices;
            elsif v_choices = '[]' then
                return '[]'::jsonb;
            else
                select v_all || c.choice into v_all
                from jsonb_array_elements(v_choices) as c (choice)
                order by (select max(array_position(v_kinds, p.piece ->> 'kind'))
                    from jsonb_array_elements(c.choice) as p (piece)) limit 1;
            end if;
            exit when jsonb_array_length(v_all) > 100;
        end loop;
        return case when v_operator = 'and' then pgq._filter_bounds(v_all) || v_all
            when jsonb_array_length(v_all) > 100 then '[]'
            else jsonb_build_array(v_all) end;
    elsif v_operator = 'not' then
        -- only where a field has one value: any element of an array could be another
        v_child := tree -> 'of';
        return case
            when v_child ->> 'op' not in ('exists', 'some')
                or v_child ->> 'in' not in ('headers', 'msg') then '[]'
            else jsonb_build_array(
                jsonb_build_array((v_child - 'op') || '{"kind": "missing"}')
                || case when v_child ->> 'op' = 'some' and v_child ->> 'in' = 'headers' then
                    jsonb_build_array((v_child - 'op') || '{"kind": "equal", "value": null}')
                else '[]' end) end;
    elsif v_base ->> 'in' = 'payload' and jsonb_array_length(v_base -> 'path') > 4
        or v_base ->> 'in' = 'msg' and (v_operator = 'type' or v_base -> 'path' ->> 0 not in (
            'topic', 'priority', 'sender', 'recipient', 'reply_to', 'correlation_id', 'group_key'))
    then
        -- the parts of a longer path have spellings that the whole path does not have
        return '[]'::jsonb;
    end if;
    case
        when v_operator in ('each', 'elem', 'any') then
            v_choices := pgq._filter_anchors(v_value, v_base ->> 'in', v_base -> 'path');
            return case when v_choices = '[]' then v_there else v_choices end;
        when v_operator = 'eq' and jsonb_typeof(v_value) not in ('array', 'object') then
            return jsonb_build_array(jsonb_build_array(
                v_base || jsonb_build_object('kind', 'equal', 'value', v_value)));
        when v_operator = 'in' and jsonb_array_length(v_value) <= 100 then
            return jsonb_build_array((
                select jsonb_agg(v_base || jsonb_build_object('kind', 'equal', 'value', e.value))
                from jsonb_array_elements(v_value) as e (value)));
        when v_operator = 'range' then
            return jsonb_build_array(jsonb_build_array(v_base || jsonb_build_object(
                'kind', case when jsonb_path_exists(v_value, 'strict $.* ? (@.type() == "string")')
                    then 'text range' else 'range' end,
                'value', jsonb_build_array(coalesce(v_value -> 'gt', v_value -> 'gte'),
                    coalesce(v_value -> 'lt', v_value -> 'lte')))));
        when v_operator in ('prefix', 'like', 'wildcard', 'topic') or v_operator = 'patterns'
                and jsonb_array_length(v_value) <= 100 then
            select jsonb_agg(v_base || jsonb_build_object('kind', 'prefix', 'value', h.head))
            into v_all
            from jsonb_array_elements(case v_operator when 'patterns' then v_value
                    else jsonb_build_array(jsonb_build_array(v_operator, v_value)) end) as t (test),
                lateral (select left(case t.test ->> 0
                    when 'prefix' then t.test ->> 1
                    when 'like' then substring(t.test ->> 1 from E'^[^%_\\\\]*')
                    when 'wildcard' then substring(t.test ->> 1 from E'^[^*\\\\]*')
                    -- orders.# matches orders, too
                    when 'topic' then rtrim(substring(t.test ->> 1 from '^[^*#]*'), '.')
                    else '' end, 64)) as h (head);
            return case when v_all @> '[{"value": ""}]' then v_there
                else jsonb_build_array(v_all) end;
        else
            return v_there;
    end case;
end
$$;
comment on function pgq._filter_anchors(jsonb, text, jsonb) is
    'Conditions by which publishing can find a syntax tree: choices of alternatives.';
