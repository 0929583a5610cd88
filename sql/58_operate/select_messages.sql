-- Checks the arguments that select messages of a queue.
create or replace function pgq._select_messages(
    queue pgq.queue, ids bigint[], filter jsonb, dedup_key text
) returns pgq._selection
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter;
begin
    if nullif(filter, '{}') is not null then
        v_filter := pgq._find_filter(filter, null);
    end if;
    return row(queue.queue_id, case when ids is not null then pgq._set_of(ids) end, null,
               v_filter.path, v_filter.scope, dedup_key,
               v_filter.path is not null or dedup_key is not null, pgq.now())::pgq._selection;
end
$$;
comment on function pgq._select_messages(pgq.queue, bigint[], jsonb, text) is
    'The selection that the arguments describe, or QU004.';

-- Whether a message meets the conditions of a selection other than the ids. The planner inlines it.
create or replace function pgq._is_selected(
    selection pgq._selection, m pgq.message, attempt int
) returns boolean
language sql stable parallel safe
return (selection.dedup_key is null or m.dedup_key = selection.dedup_key)
    and pgq._matches(selection.path, selection.scope, m, attempt, selection.now);
comment on function pgq._is_selected(pgq._selection, pgq.message, int) is
    'Whether a message is selected.';
