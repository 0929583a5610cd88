-- The current item (@), a string, matches one of these patterns, which are sorted by the plain text
-- that they begin with. Patterns with similar beginnings share one regular expression, and
-- comparisons select the one to try: the time for a regular expression grows with its length, even
-- where the first character decides.
create or replace function pgq._filter_headed(heads text[], regexes text[])
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_size constant int := greatest(cardinality(regexes) / 8, 64);
    v_starts int[] := '{1}';
    v_family text := heads[1];
    v_regex text;
    v_condition text;
begin
    -- never split between a head and another that starts with it: a text may start with both
    for i in 2 .. cardinality(heads) loop
        if not starts_with(heads[i], v_family) then
            v_family := heads[i];
            if i - v_starts[cardinality(v_starts)] >= v_size then
                v_starts := v_starts || i;
            end if;
        end if;
    end loop;
    for i in 1 .. cardinality(v_starts) loop
        v_regex := array_to_string(
            regexes[v_starts[i]:coalesce(v_starts[i + 1] - 1, cardinality(regexes))], '|');
        v_regex := format('@ like_regex %s flag "s"', to_json(v_regex));
        v_condition := case when i = 1 then v_regex
            else format('((@ >= %s && %s) || (@ < %1$s && %3$s))', to_json(heads[v_starts[i]]),
                v_regex, v_condition) end;
    end loop;
    return v_condition;
end
$$;
comment on function pgq._filter_headed(text[], text[]) is
    'The jsonpath condition of a string matching one of many patterns with a plain beginning.';
