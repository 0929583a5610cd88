-- Conditions joined by && or ||, in groups, so that a long list does not become a deep tree.
create or replace function pgq._filter_join(operator text, conditions text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_conditions text[] := conditions;
begin
    while cardinality(v_conditions) > 16 loop
        select array_agg(g.condition order by g.number)
        into v_conditions
        from (select (c.position - 1) / 16,
                '(' || string_agg(c.condition, ' ' || operator || ' ' order by c.position) || ')'
            from unnest(v_conditions) with ordinality as c (condition, position)
            group by 1) as g (number, condition);
    end loop;
    return case when cardinality(v_conditions) = 1 then v_conditions[1]
        else '(' || array_to_string(v_conditions, ' ' || operator || ' ') || ')' end;
end
$$;
comment on function pgq._filter_join(text, text[]) is
    'Joins jsonpath conditions by && or ||.';
