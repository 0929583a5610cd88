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
