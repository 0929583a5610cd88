-- The current item (@) is one of these literals, sorted as jsonpath sorts: a binary search.
create or replace function pgq._filter_search(literals text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_middle int := cardinality(literals) / 2;
begin
    if cardinality(literals) <= 4 then
        return '(@ == ' || array_to_string(literals, ' || @ == ') || ')';
    end if;
    return format('((@ < %s && %s) || (@ >= %s && %s))',
        literals[v_middle + 1], pgq._filter_search(literals[:v_middle]),
        literals[v_middle + 1], pgq._filter_search(literals[v_middle + 1:]));
end
$$;
comment on function pgq._filter_search(text[]) is
    'The jsonpath condition of an item being one of many sorted literals.';
revoke all on function pgq._filter_search(text[]) from public;
