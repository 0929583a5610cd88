-- Deletes what was staged under these tokens.
create or replace function pgq.discard_staged(tokens uuid[]) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_count bigint;
begin
    delete from pgq.staged s where s.token = any (tokens);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
comment on function pgq.discard_staged(uuid[]) is
    'Deletes the messages that were staged under these tokens. Returns how many.';
