-- Where a new regular expression begins among patterns that are sorted by the plain text that they
-- begin with. There are at most 16 groups: PostgreSQL keeps 32 compiled regular expressions.
create or replace function pgq._filter_head_groups(heads text[])
returns int[]
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_size constant int := greatest((cardinality(heads) + 15) / 16, 32);
    v_starts int[] := '{1}';
    v_start int := 1;
    v_family text := heads[1];
begin
    -- never split between a head and another that starts with it: a text may start with both
    for i in 2 .. cardinality(heads) loop
        if not starts_with(heads[i], v_family) then
            v_family := heads[i];
            if i - v_start >= v_size then
                v_start := i;
                v_starts := v_starts || i;
            end if;
        end if;
    end loop;
    return v_starts;
end
$$;
comment on function pgq._filter_head_groups(text[]) is
    'Where groups of patterns with a plain beginning start.';
