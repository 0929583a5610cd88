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
