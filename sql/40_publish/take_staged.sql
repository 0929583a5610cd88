-- Takes out the rows that were staged under these tokens, for a table of the caller.
create or replace function pgq.take_staged(tokens uuid[], size bigint) returns setof jsonb
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set work_mem = '64MB'
set jit = off
as $$
declare
    v_count bigint;
begin
    return query
        select s.payload from unnest(tokens) t (token)
        cross join lateral (
            select i.payload from pgq.staged i where i.token = t.token order by i.position) s;
    get diagnostics v_count = row_count;
    if v_count is distinct from size then
        raise exception 'only % of % rows are staged', v_count, size
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'The server was restarted after a crash, or they were staged more than a '
                      'day ago. Stage them again.';
    end if;
    if v_count < 10000 or not pgq._empty_staged(tokens) then
        delete from pgq.staged s where s.token = any (tokens);
    end if;
end
$$;
comment on function pgq.take_staged(uuid[], bigint) is
    'Returns the payloads that were inserted into pgq.staged with these tokens, and deletes them. '
    'The caller writes them into a table in the same transaction. 55000 unless there are as many '
    'as size.';
