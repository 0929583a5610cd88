-- Syntax tree -> jsonpath that is true or false on any message: run it with
-- jsonb_path_match(target, path, vars, silent => true). $ is the headers, the payload or the whole
-- document, as pgq._filter_scope says; for content it is the payload, and $headers a variable, so
-- that a large payload is not copied. With a root, $ is that part.
create or replace function pgq._filter_path(tree jsonb, root text default null)
returns jsonpath
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope constant text := coalesce(root, pgq._filter_scope(tree));
begin
    if jsonb_typeof(tree) = 'boolean' then
        return tree::text::jsonpath;
    end if;
    return ('exists(true ? (' || pgq._filter_condition(tree, v_scope) || '))')::jsonpath;
end
$$;
comment on function pgq._filter_path(jsonb, text) is
    'Compiles a syntax tree to a two-valued jsonpath.';
