-- Which part of a message a tree reads: headers, payload, content for both, or message if the
-- message's own fields are needed too, which cost the most to prepare.
create or replace function pgq._filter_scope(tree jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope text;
    v_child text;
    v_tree jsonb;
begin
    if tree ? 'in' then
        return case tree ->> 'in' when 'msg' then 'message' else tree ->> 'in' end;
    elsif tree ->> 'op' = 'not' then
        return pgq._filter_scope(tree -> 'of');
    elsif jsonb_typeof(tree) = 'boolean' then
        return 'headers';
    end if;
    for v_tree in select jsonb_array_elements(tree -> 'of') loop
        v_child := pgq._filter_scope(v_tree);
        if v_child = 'message' then
            return 'message';
        end if;
        v_scope := case when v_child <> v_scope then 'content' else v_child end;
    end loop;
    return v_scope;
end
$$;
comment on function pgq._filter_scope(jsonb) is
    'The part of a message that a syntax tree reads: headers, payload, content, message.';
