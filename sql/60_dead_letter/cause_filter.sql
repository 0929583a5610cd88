-- The filter of a cause: on why messages died, not on the messages.
create or replace function pgq._cause_filter(cause jsonb) returns pgq.filter
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_filter pgq.filter := pgq._find_filter(coalesce(cause, '{}'), null);
    v_unknown text;
begin
    select coalesce(l.leaf #>> '{path,0}', l.leaf ->> 'in') into v_unknown
    from jsonb_path_query(pgq._filter_parse(cause), '$.** ? (exists (@."in"))') l (leaf)
    where l.leaf ->> 'in' <> 'headers' or l.leaf #>> '{path,0}' not in (
        'reason', 'error', 'attempts', 'failed_at', 'holder', 'replay_count')
    limit 1;
    if found then
        raise exception 'a dead letter has no "%"', v_unknown
            using errcode = 'QU004',
                  hint = 'A cause has reason, error, attempts, failed_at, holder and replay_count; '
                      'headers and payload belong into the filter.';
    end if;
    return v_filter;
end
$$;
comment on function pgq._cause_filter(jsonb) is 'The filter of a cause of dead letters.';
