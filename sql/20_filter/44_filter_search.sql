-- The current item (@) is one of these literals, or starts with one of them: a binary search. The
-- literals are sorted as jsonpath sorts. Of literals to start with, none may start with another.
create or replace function pgq._filter_search(literals text[], operator text default '==')
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_middle int := cardinality(literals) / 2;
begin
    if cardinality(literals) <= 4 then
        return format('(@ %s %s)', operator,
            array_to_string(literals, format(' || @ %s ', operator)));
    end if;
    return format('((@ < %s && %s) || (@ >= %s && %s))',
        literals[v_middle + 1], pgq._filter_search(literals[:v_middle], operator),
        literals[v_middle + 1], pgq._filter_search(literals[v_middle + 1:], operator));
end
$$;
comment on function pgq._filter_search(text[], text) is
    'The jsonpath condition of an item being one of, or starting with one of, many literals.';
