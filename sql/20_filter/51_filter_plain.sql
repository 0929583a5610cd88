-- Can the tree run in strict mode? Yes if no test looks inside an array or object.
create or replace function pgq._filter_plain(tree jsonb)
returns boolean
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then pgq._filter_plain(tree -> 'of')
        when tree ? 'of' then (select bool_and(pgq._filter_plain(t.tree))
            from jsonb_array_elements(tree -> 'of') as t (tree))
        when tree ->> 'op' = 'eq' then jsonb_typeof(tree -> 'value') not in ('array', 'object')
        else coalesce(tree ->> 'op' not in ('all', 'size', 'elem', 'contains'), true) end;
end
$$;
comment on function pgq._filter_plain(jsonb) is
    'Whether every test of a syntax tree is about scalars.';
revoke all on function pgq._filter_plain(jsonb) from public;
