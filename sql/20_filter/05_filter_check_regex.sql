-- The length of a regular expression with its bounds expanded: a bound copies a part of it.
create or replace function pgq._filter_copies(pattern text) returns numeric
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bounds constant text := E'(\\)?)\\{(\\d+)(?:,(\\d*))?\\}';
    v_copies numeric := length(pattern)::numeric;
    v_match text[];
begin
    -- a bound copies the atom before it; after a group, everything that may be in the group
    for v_match in select regexp_matches(pattern, v_bounds, 'g') loop
        if v_match[1] = '' then
            v_copies := v_copies + coalesce(nullif(v_match[3], ''), v_match[2])::numeric;
        end if;
    end loop;
    for v_match in select regexp_matches(pattern, v_bounds, 'g') loop
        if v_match[1] = ')' then
            v_copies := v_copies
                * greatest(coalesce(nullif(v_match[3], ''), v_match[2])::numeric, 1);
        end if;
    end loop;
    return v_copies;
end
$$;
comment on function pgq._filter_copies(text) is
    'The length of a regular expression with its bounds expanded.';

-- Does a regular expression begin at the start of a text, and never search?
create or replace function pgq._filter_is_anchored(pattern text)
returns boolean
language sql immutable strict parallel safe
return pattern operator(pg_catalog.~) E'^\\^[^|*+]*$'
    and pattern operator(pg_catalog.!~) E'\\{\\d+,\\}';
comment on function pgq._filter_is_anchored(text) is
    'Whether a regular expression matches at the start of a text only, and has bounds.';

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

-- Refuses a regular expression that PostgreSQL would take long to compile or to run.
create or replace function pgq._filter_check_regex(pattern text, at text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if pattern ~ E'^(?:[^\\\\]|\\\\[^1-9])*\\\\[1-9]' then
        perform pgq._filter_error('back-references are not supported', at,
            E'Write the regular expression without \\1 to \\9.');
    elsif pattern ~ E'^(?:[^[\\\\]|\\\\.|\\[\\^?\\]?(?:[^]\\\\]|\\\\.)*\\])*\\(\\?<?[=!]' then
        -- a lookahead makes the time for a text grow with the cube of its length
        perform pgq._filter_error('lookahead and lookbehind are not supported', at,
            'Write two tests: {"$regex": ...} for one, {"$not": {"key": {"$regex": ...}}} for the '
            'other.');
    elsif (select count(m.part[1]) from regexp_matches(pattern, E'\\\\.|\\(\\?|([?*+{])', 'g')
            as m (part)) > 12 then
        perform pgq._filter_error('the regular expression has too many quantifiers', at,
            'It has at most 12 of *, +, ? and {}.');
    end if;
    if pgq._filter_copies(pattern) > 1024 then
        perform pgq._filter_error('the regular expression repeats too much', at,
            'The bounds in braces, multiplied where groups are repeated, make at most 1024.');
    end if;
end
$$;
comment on function pgq._filter_check_regex(text, text) is
    'Validates a regular expression; QU004 if it could be slow.';
