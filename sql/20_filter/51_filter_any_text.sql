-- The current item (@), a string, passes any of these text tests: [[operator, pattern], ...].
-- Prefixes and whole texts use a binary search; the others become one regular expression, two if
-- some ignore case, and up to 16 more of each kind for many that begin with plain text.
create or replace function pgq._filter_any_text(tests jsonb)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_prefixes text[];
    v_text text;
    v_conditions text[];
begin
    select array_agg(case when r.heads is not null then pgq._filter_headed(r.heads, r.regexes,
            r.ignoring)
        else format('@ like_regex %s flag "%s"', to_json(array_to_string(r.regexes, '|')),
            case when r.ignoring then 'is' else 's' end) end)
    into v_conditions
    from (
        select p.ignoring,
            array_agg(p.head order by convert_to(p.head, 'UTF8')) filter (where p.headed),
            array_agg(p.regex order by convert_to(p.head, 'UTF8'))
        from (
            select t.test ->> 0 in ('ieq', 'ilike'), h.head,
                h.head <> '' and count(*) filter (where h.head <> '') over (
                    partition by t.test ->> 0 in ('ieq', 'ilike')) > 64,
                pgq._filter_pattern(t.test ->> 0, t.test ->> 1)
            from jsonb_array_elements(tests) as t (test),
                pgq._filter_head(t.test ->> 0, t.test ->> 1) as h (head)
            where pgq._filter_is_regex(t.test ->> 0, t.test ->> 1)
        ) as p (ignoring, head, headed, regex)
        group by p.ignoring, p.headed order by p.ignoring, p.headed
    ) as r (ignoring, heads, regexes);
    select array_agg(rtrim(t.test ->> 1, case t.test ->> 0 when 'wildcard' then '*'
        when 'like' then '%' else '' end))
    into v_prefixes
    from jsonb_array_elements(tests) as t (test)
    where not pgq._filter_is_regex(t.test ->> 0, t.test ->> 1)
        and (t.test ->> 0 = 'prefix' or right(t.test ->> 1, 1) in ('*', '%'));
    if v_prefixes is not null then
        v_conditions := pgq._filter_prefixes(v_prefixes) || v_conditions;
    end if;
    select pgq._filter_search(array_agg(l.literal order by convert_to(l.text, 'UTF8')))
    into v_text
    from (
        select distinct t.test ->> 1, (t.test -> 1)::text
        from jsonb_array_elements(tests) as t (test)
        where not pgq._filter_is_regex(t.test ->> 0, t.test ->> 1)
            and t.test ->> 0 <> 'prefix' and right(t.test ->> 1, 1) not in ('*', '%')
    ) as l (text, literal);
    return pgq._filter_join('||', array_remove(v_text || v_conditions, null));
end
$$;
comment on function pgq._filter_any_text(jsonb) is
    'The jsonpath condition of a string passing any of several text tests.';
