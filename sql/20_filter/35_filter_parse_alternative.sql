-- One operator object of a list, as SNS and EventBridge spell it -> tree, and how many nodes it
-- counts as, without patterns, which are counted together.
create or replace function pgq._filter_parse_alternative(
    alternative jsonb, scope text, path text[], at text, out tree jsonb, out nodes int)
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint constant text := 'A list takes values, and prefix, suffix, equals-ignore-case, '
        'wildcard, exists, numeric, cidr and anything-but, one per object.';
    v_name text;
    v_operand jsonb;
    v_at text;
begin
    if jsonb_typeof(alternative) <> 'object' then
        perform pgq._filter_error('a list cannot hold a list', at,
            'Compare with a whole array by {"$eq": [...]}.');
    elsif (select count(*) from jsonb_object_keys(alternative)) <> 1 then
        perform pgq._filter_error('an object in a list must hold one operator', at, v_hint);
    end if;
    select o.key, o.value into v_name, v_operand from jsonb_each(alternative) as o;
    v_at := at || '.' || left(v_name, 64);
    nodes := case when v_name in ('exactly', 'exists') then 1 else 3 end;
    if scope = 'msg' and path[1] in ('published_at', 'expires_at')
            and v_name not in ('exists', 'anything-but') then
        perform pgq._filter_error('timestamps cannot be tested with ' || left(v_name, 64), v_at,
            'Write {"$gt": "2030-01-31"}, {"$lt": {"$now": "-1 hour"}} or a timestamp.');
    end if;
    case v_name
        when 'prefix', 'suffix', 'equals-ignore-case', 'wildcard', 'cidr' then
            nodes := 0;
            tree := pgq._filter_parse_text(v_name, v_operand, scope, path, v_at);
        when 'exactly' then
            if jsonb_typeof(v_operand) <> 'string' then
                perform pgq._filter_error('the operand must be a string', v_at,
                    'Write {"exactly": "a"}, or "a" alone.');
            end if;
            tree := pgq._filter_membership(scope, path, jsonb_build_array(v_operand), v_at);
        when 'exists' then
            if jsonb_typeof(v_operand) <> 'boolean' then
                perform pgq._filter_error('exists takes true or false', v_at,
                    'Write {"exists": true} or {"exists": false}.');
            end if;
            tree := case scope when 'item' then 'true'::jsonb
                else pgq._filter_node(case scope when 'msg' then 'some' else 'exists' end,
                    scope, path) end;
            if not v_operand::boolean then
                tree := pgq._filter_negate(tree);
            end if;
        when 'numeric' then
            tree := pgq._filter_numeric(v_operand, scope, path, v_at);
        when 'anything-but' then
            -- a header is tested like a field of the payload: null is not a missing field
            select 3 + b.nodes, case scope
                when 'item' then pgq._filter_negate(b.tree)
                when 'msg' then pgq._filter_unless(scope, path, b.tree)
                else pgq._filter_node('any', scope, path, pgq._filter_negate(b.tree)) end
            into nodes, tree
            from pgq._filter_anything_but(v_operand,
                case scope when 'headers' then 'item' else scope end,
                case scope when 'headers' then '{}' else path end, v_at) as b;
        else
            perform pgq._filter_error('unknown operator ' || left(v_name, 64) || ' in a list', v_at,
                v_hint);
    end case;
end
$$;
comment on function pgq._filter_parse_alternative(jsonb, text, text[], text) is
    'Validates an SNS or EventBridge operator and gives its tree.';
