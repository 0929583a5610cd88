-- Syntax tree -> jsonpath that is true or false on any message: run it with
-- jsonb_path_match(target, path, vars, silent => true). $ is the headers, the payload or the whole
-- document, as pgq._filter_scope says; for content it is the payload, and $headers a variable, so
-- that a large payload is not copied.
-- Headers run in strict mode, which is twice as fast: nothing has to be kept from looking into
-- arrays. The payload needs lax mode, which does look into them.
create or replace function pgq._filter_path(tree jsonb)
returns jsonpath
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope constant text := pgq._filter_scope(tree);
    v_strict boolean;
begin
    if jsonb_typeof(tree) = 'boolean' then
        return tree::text::jsonpath;
    end if;
    v_strict := v_scope = 'headers' and pgq._filter_plain(tree);
    return (case when v_strict then 'strict ' else '' end || 'exists(true ? ('
        || pgq._filter_condition(tree, v_scope, v_strict) || '))')::jsonpath;
end
$$;
comment on function pgq._filter_path(jsonb) is
    'Compiles a syntax tree to a two-valued jsonpath.';
revoke all on function pgq._filter_path(jsonb) from public;
