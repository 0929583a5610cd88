-- A list of alternatives, as SNS and EventBridge define it. Tests of a header or of msg become a
-- tree, tests of the payload a policy, because pgq._filter_policy combines the lists of a filter.
create or replace function pgq._filter_parse_list(
    list jsonb, scope text, path text[], at text,
    out tree jsonb, out policy jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_whole constant boolean := scope in ('headers', 'msg');
    v_scope constant text := case when v_whole then scope else 'item' end;
    v_path constant text[] := case when v_whole then path else '{}' end;
    v_missing boolean := false;
    v_done boolean;
    v_parts jsonb[] := '{}';
    v_texts jsonb[] := '{}';
    v_scalars jsonb;
    v_value jsonb;
    v_index int := 0;
    v_part record;
begin
    perform pgq._filter_check_list(list, false, at);
    nodes := case scope when 'headers' then 0 else 2 end;
    v_scalars := jsonb_path_query_array(list,
        'strict $[*] ? (@.type() != "array" && @.type() != "object")');
    if v_scalars <> '[]' then
        nodes := nodes + pgq._filter_value_nodes(v_scalars);
        v_parts := v_parts || pgq._filter_membership(v_scope, v_path, v_scalars, at);
    end if;
    if jsonb_array_length(v_scalars) < jsonb_array_length(list) then
        if jsonb_array_length(list) > 8 and scope <> 'msg' then
            v_texts := pgq._filter_parse_texts(list, v_scope, v_path);
        end if;
        v_done := cardinality(v_texts) = jsonb_array_length(list) - jsonb_array_length(v_scalars);
        v_texts := case when v_done then v_texts else '{}' end;
        for v_value in select jsonb_array_elements(list) where not v_done loop
            if jsonb_typeof(v_value) in ('array', 'object') then
                select a.tree, a.nodes into v_part
                from pgq._filter_parse_alternative(v_value, v_scope, v_path,
                    format('%s[%s]', at, v_index)) as a;
                nodes := nodes + v_part.nodes;
                if v_part.nodes = 0 then
                    v_texts := v_texts || v_part.tree;
                elsif v_part.tree = 'false' then
                    v_missing := true;
                else
                    v_parts := v_parts || v_part.tree;
                end if;
            end if;
            v_index := v_index + 1;
        end loop;
        if v_texts <> '{}' then
            select p.tree, p.nodes into v_part from pgq._filter_patterns(v_texts) as p;
            v_parts := v_parts || v_part.tree;
            nodes := nodes + 1 + v_part.nodes;
        end if;
    end if;
    tree := pgq._filter_combine('or', v_parts);
    policy := 'true';
    if not v_whole then
        policy := pgq._filter_node('any', scope, path, tree);
        if jsonb_array_length(list) > 100 or pgq._filter_lists(tree) <> '{}' then
            -- written once for each spelling of the path, a long list would take long to compile;
            -- and a text that is compared with a list of suffixes is read for each spelling
            policy := policy || '{"plain": true}';
        end if;
        if v_missing then
            policy := pgq._filter_combine('or', case when v_parts = '{}' then '{}'
                else array[policy] end
                || pgq._filter_negate(pgq._filter_node('any', scope, path, 'true')));
        end if;
        tree := 'true';
    end if;
end
$$;
comment on function pgq._filter_parse_list(jsonb, text, text[], text) is
    'Validates a list of alternatives and gives its tree, or its policy.';
