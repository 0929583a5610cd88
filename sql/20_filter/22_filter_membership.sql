-- The field equals one of these scalars. In msg there is no JSON null: null means missing.
create or replace function pgq._filter_membership(
    scope text, path text[], operands jsonb, at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_time boolean := scope = 'msg' and path[1] in ('published_at', 'expires_at');
    v_null boolean := operands @> '[null]' and scope = 'msg';
    v_operands jsonb;
    v_tree jsonb := 'false';
begin
    select jsonb_agg(distinct case when v_time then pgq._filter_moment(o.operand, at)
        else o.operand end)
    into v_operands
    from jsonb_array_elements(operands) as o (operand)
    where not (v_null and o.operand = 'null');
    if jsonb_array_length(v_operands) = 1 then
        v_tree := pgq._filter_node('eq', scope, path, v_operands -> 0);
    elsif v_operands is not null then
        v_tree := pgq._filter_node('in', scope, path, v_operands);
    end if;
    if v_null then
        v_tree := pgq._filter_combine('or', array[v_tree,
            pgq._filter_negate(pgq._filter_node('some', scope, path))]);
    end if;
    return v_tree;
end
$$;
comment on function pgq._filter_membership(text, text[], jsonb, text) is
    'The tree of "the field equals one of these scalars".';

-- How many nodes a list of values counts as: a few are compared one by one, many are searched.
create or replace function pgq._filter_value_nodes("values" jsonb) returns int
language sql immutable strict parallel safe
return least(jsonb_array_length("values"), 8) + jsonb_array_length("values") / 20;
comment on function pgq._filter_value_nodes(jsonb) is 'How many nodes a list of values counts as.';
