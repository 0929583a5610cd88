-- Where the texts are that a tree compares with lists of suffixes: the name of the list, the length
-- of its longest suffix, and a jsonpath. base is the jsonpath of the element that an item stands
-- for.
create or replace function pgq._filter_texts(
    tree jsonb, scope text, base text default null, out list text, out longest int,
    out path text)
returns setof record
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_base text := base;
begin
    if tree ? 'of' then
        return query
            select t.list, t.longest, t.path
            from jsonb_array_elements(case tree ->> 'op' when 'not'
                    then jsonb_build_array(tree -> 'of') else tree -> 'of' end) as o (tree),
                pgq._filter_texts(o.tree, scope, base) as t;
    elsif tree ->> 'op' in ('suffixes', 'any', 'each', 'elem') then
        v_base := coalesce(base, case
            when scope = 'message' then format('$."%s"', tree ->> 'in')
            when scope = 'content' and tree ->> 'in' = 'headers' then '$"headers"'
            else '$' end);
        for v_base in
            select v_base || s.steps
            from unnest(case when tree -> 'path' = '[]' then '{"[*]"}' else pgq._filter_spellings(
                tree -> 'path', tree ? 'plain' or tree ->> 'op' in ('suffixes', 'elem')) end)
                as s (steps)
        loop
            if tree ->> 'op' = 'suffixes' then
                list := trim(both '"' from pgq._filter_list(tree -> 'value'));
                longest := (select max(length(s.suffix))
                    from jsonb_array_elements_text(tree -> 'value') as s (suffix));
                path := v_base;
                return next;
            else
                return query
                    select t.list, t.longest, t.path
                    from pgq._filter_texts(tree -> 'value', scope, v_base) as t;
            end if;
        end loop;
    end if;
end
$$;
comment on function pgq._filter_texts(jsonb, text, text) is
    'Where the texts are that a tree compares with lists of suffixes.';
