-- The current item (@), a string, matches one of these patterns, which are sorted by the plain text
-- that they begin with. Patterns with similar beginnings share one regular expression, and
-- comparisons select the one to try, because the time for a regular expression grows with its
-- length. For patterns that ignore case, each comparison is made with both cases of the first
-- letter.
create or replace function pgq._filter_headed(heads text[], regexes text[], ignoring boolean)
returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_starts constant int[] := pgq._filter_head_groups(heads);
    v_regex text;
    v_low text;
    v_high text;
    v_condition text;
begin
    for i in 1 .. cardinality(v_starts) loop
        v_regex := array_to_string(
            regexes[v_starts[i]:coalesce(v_starts[i + 1] - 1, cardinality(regexes))], '|');
        v_regex := format('@ like_regex %s flag "%s"', to_json(v_regex),
            case when ignoring then 'is' else 's' end);
        if ignoring then
            v_low := heads[v_starts[i]];
            v_high := heads[v_starts[i + 1]];
            v_condition := concat_ws(' || ', v_condition,
                format('((@ >= "%s" && @ < "%s" || @ >= "%s" && @ < "%s") && %s)',
                    v_low, coalesce(v_high, '{'), upper(v_low collate "C"),
                    coalesce(upper(v_high collate "C"), '['), v_regex));
        else
            v_condition := case when i = 1 then v_regex
                else format('((@ >= %s && %s) || (@ < %1$s && %3$s))', to_json(heads[v_starts[i]]),
                    v_regex, v_condition) end;
        end if;
    end loop;
    return v_condition;
end
$$;
comment on function pgq._filter_headed(text[], text[], boolean) is
    'The jsonpath condition of a string matching one of many patterns with a plain beginning.';
