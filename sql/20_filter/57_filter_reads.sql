-- The scope of a tree. If the tree has lists of suffixes, three lines for each place of a text that
-- is compared with one follow: the name of the list, its longest suffix, and a jsonpath.
create or replace function pgq._filter_reads(tree jsonb) returns text
language plpgsql immutable strict parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_scope constant text := pgq._filter_scope(tree);
begin
    return concat_ws(E'\n', v_scope, (
        select string_agg(concat_ws(E'\n', t.list, t.longest, t.path), E'\n')
        from (select distinct u.* from pgq._filter_texts(tree, v_scope) as u) as t));
end
$$;
comment on function pgq._filter_reads(jsonb) is
    'The scope of a tree, and where the texts are that it compares with lists of suffixes.';
