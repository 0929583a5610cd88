-- Does the policy need a field that is there? Not if {"exists": false} alone can satisfy it.
create or replace function pgq._filter_policy_needs(tree jsonb)
returns boolean
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when tree ->> 'op' = 'not' then false
        when tree ->> 'op' = 'or' then (select bool_and(pgq._filter_policy_needs(t.tree))
            from jsonb_array_elements(tree -> 'of') as t (tree))
        when tree ->> 'op' = 'and' then (select bool_or(pgq._filter_policy_needs(t.tree))
            from jsonb_array_elements(tree -> 'of') as t (tree))
        else true end;
end
$$;
comment on function pgq._filter_policy_needs(jsonb) is
    'Whether a policy is false on a message without any of its fields.';
