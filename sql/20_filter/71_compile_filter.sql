-- A filter in compiled form: the part of the message it reads, the jsonpath that runs, operands.
create or replace function pgq.compile_filter(
    filter jsonb, out scope text, out path jsonpath, out tree jsonb, out operands jsonb,
    out operand_count int)
returns setof record
language plpgsql immutable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    tree := pgq._filter_parse(filter);
    scope := pgq._filter_scope(tree);
    path := pgq._filter_path(tree);
    operands := pgq._filter_operands(tree);
    operand_count := jsonb_array_length(operands);
    return next;
end
$$;
comment on function pgq.compile_filter(jsonb) is
    'Shows the compiled form of a filter. scope: what it reads (headers, payload, content for '
    'both, message if also other fields). path: the jsonpath that runs. tree: the normal form. '
    'operands: its values. QU004 if the filter is invalid.';
