-- The key after the first skip ones that all fields of a policy lie below; null: there is none.
create or replace function pgq._filter_policy_head(tree jsonb, skip int)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then pgq._filter_policy_head(tree -> 'of', skip)
        when tree ? 'of' then (
            select case when count(h.head) = count(*) and min(h.head) = max(h.head)
                then min(h.head) end
            from jsonb_array_elements(tree -> 'of') as t (tree),
                pgq._filter_policy_head(t.tree, skip) as h (head))
        when jsonb_array_length(tree -> 'path') > skip + 1 then tree -> 'path' ->> skip end;
end
$$;
comment on function pgq._filter_policy_head(jsonb, int) is
    'The key above all fields of a policy, if there is one.';
