-- How many nodes the patterns of one list count as because they search a text: patterns that can
-- begin anywhere, or continue anywhere after their plain beginning. PostgreSQL follows all of them
-- at once, except those whose beginnings exclude each other. So the largest sum counts of patterns
-- whose beginnings one text can have.
create or replace function pgq._filter_searches(tests jsonb[], ignoring boolean)
returns int
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_heads text[] := '{}';
    v_weights int[] := '{}';
    v_sum int := 0;
    v_most int := 0;
    v_last int := 0;
    v_test record;
begin
    for v_test in
        select s.head, 3 + 4 * s.steps + 14 * s.ones + s.length / 2 as weight
        from (
            select case when t.test ->> 'op' in ('regex', 'iregex')
                    then pgq._filter_copies(t.test ->> 'value')::int
                    else length(t.test ->> 'value') end,
                case when t.test ->> 'op' in ('like', 'wildcard')
                    then substring(t.test ->> 'value' from E'^[^*%_\\\\]*') else '' end,
                case t.test ->> 'op'
                    when 'suffix' then 1
                    when 'substr' then 1
                    when 'regex' then 1 + regexp_count(t.test ->> 'value', '[?*+{|]')
                    when 'iregex' then 1 + regexp_count(t.test ->> 'value', '[?*+{|]')
                    when 'wildcard' then length(regexp_replace(t.test ->> 'value',
                        E'\\\\.|[^*]|\\*+$', '', 'g'))
                    when 'like' then length(regexp_replace(t.test ->> 'value',
                        E'\\\\.|[^%]|%+$', '', 'g'))
                    when 'ilike' then length(regexp_replace(t.test ->> 'value',
                        E'\\\\.|[^%]|%+$', '', 'g'))
                    else 0 end,
                case when t.test ->> 'op' in ('like', 'ilike') then length(regexp_replace(
                    t.test ->> 'value', E'\\\\.|[^_]', '', 'g')) else 0 end
            from unnest(tests) as t (test)
            where pgq._filter_is_regex(t.test ->> 'op', t.test ->> 'value')
                and (t.test ->> 'op' in ('ieq', 'ilike', 'iregex')) = ignoring
        ) as s (length, head, steps, ones)
        where s.steps > 0
        order by convert_to(s.head, 'UTF8')
    loop
        while v_last > 0 and not starts_with(v_test.head, v_heads[v_last]) loop
            v_sum := v_sum - v_weights[v_last];
            v_last := v_last - 1;
        end loop;
        v_last := v_last + 1;
        v_heads[v_last] := v_test.head;
        v_weights[v_last] := v_test.weight;
        v_sum := v_sum + v_test.weight;
        v_most := greatest(v_most, v_sum);
        exit when v_most > 1000;  -- too many in any case
    end loop;
    return case when v_most > 0 then 13 + v_most else 0 end;
end
$$;
comment on function pgq._filter_searches(jsonb[], boolean) is
    'How many nodes patterns count as because they search a text.';

-- Text tests of one field as one tree that is true if any of them is: PostgreSQL caches 32 compiled
-- regular expressions, so a list of patterns must not become as many. nodes: what they count as.
create or replace function pgq._filter_patterns(tests jsonb[], out tree jsonb, out nodes int)
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    nodes := 0;
    if tests = '{}' then
        tree := 'false';
        return;
    end if;
    -- Measured. A node is about 0.16 us: one equality. A pattern costs as much as 25 characters and
    -- its own, which count 12 times if it ignores case; a network costs 1.2 us, of IPv6 3.5 us.
    select (sum(25 + case
            when not p.is_regex then 0
            when t.test ->> 'op' = 'cidr' and t.test ->> 'value' ~ ':' then 11000
            when t.test ->> 'op' = 'cidr' then 3750
            when t.test ->> 'op' in ('ieq', 'ilike', 'iregex')
                then 12 * length(t.test ->> 'value')
            else length(t.test ->> 'value') end) / 500
        + 6 * count(distinct t.test ->> 'op' in ('ieq', 'ilike', 'iregex'))
            filter (where p.is_regex))::int
        + pgq._filter_searches(tests, false) + pgq._filter_searches(tests, true),
        case count(*) when 1 then tests[1]
            else (tests[1] - 'value') || jsonb_build_object('op', 'patterns', 'value',
                jsonb_agg(jsonb_build_array(t.test -> 'op', t.test -> 'value'))) end
    into nodes, tree
    from unnest(tests) as t (test),
        pgq._filter_is_regex(t.test ->> 'op', t.test ->> 'value') as p (is_regex);
end
$$;
comment on function pgq._filter_patterns(jsonb[]) is
    'Joins text tests of one field by or, and counts them.';
