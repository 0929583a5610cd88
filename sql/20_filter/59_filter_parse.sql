-- Filter document -> syntax tree, or QU004 before anything else happens.
-- A tree is true, false, {"op": "and" | "or", "of": [tree, ...]}, {"op": "not", "of": tree},
-- or a leaf {"op", "in": "headers" | "payload" | "msg" | "item", "path": [key, ...], "value"}.
-- The value of a leaf elem, each or any is a tree for one element, one object, one scalar.
create or replace function pgq._filter_parse(filter jsonb)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_tree jsonb;
    v_nodes int;
begin
    if octet_length(filter::text) > 65536 then
        perform pgq._filter_error('the document is too large', '$',
            'A filter has at most 64 kB.');
    end if;
    select pgq._filter_combine('and', array[b.tree, pgq._filter_policy(b.policy, 'payload')]),
        b.nodes
    into v_tree, v_nodes
    from pgq._filter_parse_block(filter, null, '{}', '$', 1) as b;
    if v_nodes > 100 then
        perform pgq._filter_error('the filter has too many nodes', '$',
            'A filter has at most 100 nodes. A comparison with a value is one; other tests count '
            'more, and patterns that begin anywhere in a text most: see the limits in filter.md.');
    end if;
    return v_tree;
end
$$;
comment on function pgq._filter_parse(jsonb) is
    'Validates a filter document and gives its syntax tree; NULL and {} give true.';
