-- and / or of trees; constants vanish, nested nodes of the same kind are spliced in.
create or replace function pgq._filter_combine(operator text, trees jsonb[])
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_neutral jsonb := to_jsonb(operator = 'and');
    v_absorbing jsonb := to_jsonb(operator = 'or');
    v_of jsonb := '[]';
    v_tree jsonb;
begin
    foreach v_tree in array trees loop
        if v_tree = v_absorbing then
            return v_absorbing;
        elsif v_tree = v_neutral then
            continue;
        elsif v_tree ->> 'op' = operator then
            v_of := v_of || (v_tree -> 'of');
        else
            v_of := v_of || jsonb_build_array(v_tree);
        end if;
    end loop;
    return case jsonb_array_length(v_of)
        when 0 then v_neutral
        when 1 then v_of -> 0
        else jsonb_build_object('op', operator, 'of', v_of) end;
end
$$;
comment on function pgq._filter_combine(text, jsonb[]) is
    'Joins trees by and / or, simplified.';
revoke all on function pgq._filter_combine(text, jsonb[]) from public;
