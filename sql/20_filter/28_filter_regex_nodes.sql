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
