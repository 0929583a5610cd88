-- The tests of a list that need a regular expression: those that ignore case, or the others.
-- Returns their length, the plain text that they begin with, at how many places they search, and
-- how many of their characters are classes.
create or replace function pgq._filter_regexes(
    tests jsonb[], ignoring boolean, out length int, out head text, out steps int, out ones int)
returns setof record
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select case
                when t.op in ('regex', 'iregex') then pgq._filter_copies(t.value)::int
                when t.op = 'cidr' then 0  -- counted by itself
                else length(t.value) end,
            pgq._filter_head(t.op, t.value),
            case
                when t.op in ('suffix', 'substr') then 1
                when t.op in ('regex', 'iregex') and pgq._filter_is_anchored(t.value) then 0
                when t.op in ('regex', 'iregex') then 1 + regexp_count(t.value, '[?*+{|]')
                when t.op = 'wildcard' then length(regexp_replace(
                    t.value, E'\\\\.|[^*]|\\*+$', '', 'g'))
                when t.op in ('like', 'ilike') then length(regexp_replace(
                    t.value, E'\\\\.|[^%]|%+$', '', 'g'))
                when t.op = 'topic' then regexp_count(t.value, '#[^#]')
                else 0 end,
            case
                when t.op in ('like', 'ilike') then length(regexp_replace(
                    t.value, E'\\\\.|[^_]', '', 'g'))
                when t.op in ('regex', 'iregex') then pgq._filter_wide(t.value)
                else 0 end
        from (select u.test ->> 'op', u.test ->> 'value' from unnest(tests) as u (test))
            as t (op, value)
        where (t.op in ('ieq', 'ilike', 'iregex')) = ignoring
            and pgq._filter_is_regex(t.op, t.value);
end
$$;
comment on function pgq._filter_regexes(jsonb[], boolean) is
    'The tests of a list that need a regular expression.';

-- How many nodes the regular expressions of one list count as: those that ignore case, or the
-- others. Measured: a node is about 0.16 us, one equality. A regular expression of s characters
-- takes 1 us + s * 0.0065 us, more if it is long, and 0.06 us + s * 0.0006 us for each new state.
-- An anchored pattern makes at most as many states as it has characters.
--
-- A pattern searches if it can begin anywhere, or continue anywhere after its plain beginning.
-- PostgreSQL follows all such patterns at once, except those whose beginnings exclude each other.
-- So only patterns whose beginnings one text can have are added up, and the largest sum counts.
create or replace function pgq._filter_regex_nodes(tests jsonb[], ignoring boolean)
returns int
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_heads text[];
    v_lengths int[];
    v_weights int[];
    v_longest int;
    v_size int;  -- the characters of the largest regular expression: see pgq._filter_any_text
    v_plain int;
    v_starts int[];
    v_stack int[] := '{}';
    v_sum int := 0;
    v_most int := 0;
begin
    select array_agg(r.head), array_agg(r.length), sum(r.length)::int, max(r.length),
        array_agg(case when r.steps = 0 then 0
            else 3 + 3 * r.steps + 16 * r.ones + r.length / 2 end),
        (count(*) filter (where r.head = ''))::int
    into v_heads, v_lengths, v_size, v_longest, v_weights, v_plain
    from (select * from pgq._filter_regexes(tests, ignoring) as t
        order by convert_to(t.head, 'UTF8')) as r;
    if v_heads is null then
        return 0;
    elsif cardinality(v_heads) - v_plain > 64 then
        v_starts := pgq._filter_head_groups(v_heads[v_plain + 1:]);
        v_size := coalesce((select sum(l)::int from unnest(v_lengths[:v_plain]) as l), 0);
        for i in 1 .. cardinality(v_starts) loop
            v_size := greatest(v_size, (select sum(l)::int from unnest(v_lengths[
                v_plain + v_starts[i]
                :v_plain + coalesce(v_starts[i + 1] - 1, cardinality(v_heads))]) as l));
        end loop;
    end if;
    for i in 1 .. cardinality(v_heads) loop
        continue when v_weights[i] = 0;
        while v_stack <> '{}' and not starts_with(v_heads[i], v_heads[v_stack[1]]) loop
            v_sum := v_sum - v_weights[v_stack[1]];
            v_stack := v_stack[2:];
        end loop;
        v_stack := i || v_stack;
        v_sum := v_sum + v_weights[i];
        v_most := greatest(v_most, v_sum);
        exit when v_most > 1000;  -- too many in any case
    end loop;
    v_size := least(v_size, 10000);  -- too many in any case, and the square is an int
    return 6 + v_size / 25 + v_size * v_size / 80000 + v_longest * (108 + v_size) / 280
        + case when v_most > 0 then 7 + v_most else 0 end;
end
$$;
comment on function pgq._filter_regex_nodes(jsonb[], boolean) is
    'How many nodes the regular expressions of a list count as.';

-- Text tests of one field as one tree that is true if any of them is: PostgreSQL caches 32 compiled
-- regular expressions, so a list of patterns must not become as many. nodes: what they count as.
--
-- A regular expression with many suffixes costs more the longer the text is. If reading the text
-- backwards counts less, a binary search finds the suffix: pgq._test_suffixes.
create or replace function pgq._filter_patterns(tests jsonb[], out tree jsonb, out nodes int)
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_leaf jsonb := tests[1] - 'value';
    v_suffixes jsonb;
    v_other jsonb[];
    v_longest int;
    v_nodes int;
    v_backwards int;
begin
    nodes := 0;
    tree := 'false';
    if tests = '{}' then
        return;
    end if;
    -- Measured: a network costs 1.2 us, of IPv6 3.5 us.
    select (sum(case
            when t.test ->> 'op' <> 'cidr' then 11
            when t.test ->> 'value' ~ ':' then 11011
            else 3761 end) / 500)::int,
        jsonb_agg(s.suffix) filter (where s.suffix is not null), max(length(s.suffix)),
        array_agg(t.test) filter (where s.suffix is null)
    into nodes, v_suffixes, v_longest, v_other
    from unnest(tests) as t (test),
        pgq._filter_suffix(t.test ->> 'op', t.test ->> 'value') as s (suffix);
    v_nodes := pgq._filter_regex_nodes(tests, false);
    -- Measured: 7 us, and 5 us for each 1,000 characters that are read backwards.
    v_backwards := 50 + v_longest / 40
        + pgq._filter_regex_nodes(coalesce(v_other, '{}'), false);
    if v_backwards < v_nodes then
        v_nodes := v_backwards;
        tree := v_leaf || jsonb_build_object('op', 'suffixes', 'value', v_suffixes);
    else
        v_other := tests;
    end if;
    nodes := nodes + v_nodes + pgq._filter_regex_nodes(tests, true);
    if v_other is not null then
        tree := pgq._filter_combine('or', array[tree, case cardinality(v_other)
            when 1 then v_other[1]
            else v_leaf || jsonb_build_object('op', 'patterns', 'value',
                (select jsonb_agg(jsonb_build_array(t.test -> 'op', t.test -> 'value'))
                from unnest(v_other) as t (test))) end]);
    end if;
end
$$;
comment on function pgq._filter_patterns(jsonb[]) is
    'Joins text tests of one field by or, and counts them.';
