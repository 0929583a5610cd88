-- How many characters of a regular expression are classes, with the copies that bounds make. Each
-- class can double the states that PostgreSQL builds for a text. Exceptions: the match begins at
-- the start of the text, or there is only one class and it contains no other character of the
-- expression. After plain text that cannot overlap itself, fewer partial matches are possible at a
-- time.
create or replace function pgq._filter_wide(pattern text)
returns int
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_class constant text :=
        E'\\\\[dwsDWS]|\\.|\\[\\^?\\]?(?:\\[:[a-z]+:\\]|[^]\\\\]|\\\\.)*\\]';
    v_classes text[];
    v_head constant text := substring(pattern from E'^(?:[[:alnum:] _:,/=@#-](?![?*+{]))*');
    v_count numeric;
    v_bound numeric;
begin
    if pgq._filter_is_anchored(pattern) then
        return 0;
    end if;
    -- a class that is repeated without end is one state
    select array_agg(distinct t.part[2]),
        sum(case when t.part[3] ~ '^[*+]' then 0
            else coalesce(nullif(t.part[5], ''), t.part[4], '1')::numeric end)
    into v_classes, v_count
    from regexp_matches(pattern,
        format(E'(\\\\[^dwsDWS])|(%s)([*+]|\\{(\\d+)(?:,(\\d*))?\\})?', v_class), 'g') as t (part)
    where t.part[2] is not null;
    if v_classes is null or cardinality(v_classes) = 1 and regexp_replace(pattern,
            format(E'(?:%s)|\\{[\\d,]*\\}|\\(\\?:|[()|*+?^$]', v_class), '', 'g')
                !~ v_classes[1] then
        return 0;
    end if;
    for v_bound in
        select coalesce(nullif(m.part[2], ''), m.part[1])::numeric
        from regexp_matches(pattern, E'\\)\\{(\\d+)(?:,(\\d*))?\\}', 'g') as m (part)
    loop
        v_count := v_count * greatest(v_bound, 1);
    end loop;
    if strpos(substr(v_head, 2), left(v_head, 1)) = 0 and pattern !~ E'\\|' then
        v_count := ceil(v_count / (1 + length(v_head)));
    end if;
    return least(v_count, 1000)::int;
end
$$;
comment on function pgq._filter_wide(text) is
    'How many characters of a regular expression are classes.';
