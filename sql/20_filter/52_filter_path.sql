-- Syntax tree -> jsonpath that is true or false on any message: run it with
-- jsonb_path_match(target, path, vars, silent => true). $ is the headers, the payload or the whole
-- document, as pgq._filter_scope says; for content it is the payload, and $headers a variable, so
-- that a large payload is not copied. With a root, $ is that part.
--
-- A path with lists of suffixes has two uses, for pgq._test_suffixes: if $list is the name of a
-- list, whether the text $text, which is reversed, ends with one of its suffixes; if $list is
-- empty, the filter itself. $found then has the texts of the message that passed the first use.
create or replace function pgq._filter_path(tree jsonb, root text default null)
returns jsonpath
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_path text;
    v_lists jsonb[];
begin
    if jsonb_typeof(tree) = 'boolean' then
        return tree::text::jsonpath;
    end if;
    v_path := 'exists(true ? ('
        || pgq._filter_condition(tree, coalesce(root, pgq._filter_scope(tree))) || '))';
    v_lists := pgq._filter_lists(tree);
    if v_lists <> '{}' then
        v_path := format('($"list" == "" && %s)', v_path) || (
            select string_agg(format(' || ($"list" == %s && exists($"text" ? (%s)))',
                pgq._filter_list(l.suffixes), pgq._filter_prefixes(array(
                    select reverse(s.suffix)
                    from jsonb_array_elements_text(l.suffixes) as s (suffix)))), '')
            from unnest(v_lists) as l (suffixes));
    end if;
    return v_path::jsonpath;
end
$$;
comment on function pgq._filter_path(jsonb, text) is
    'Compiles a syntax tree to a two-valued jsonpath.';
