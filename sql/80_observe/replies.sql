-- The messages that belong together by their correlation id, oldest first.
create or replace function pgq.replies(correlation_id text) returns setof pgq.message
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select m.* from pgq.message m
        where m.correlation_id = replies.correlation_id order by m.id;
end
$$;
comment on function pgq.replies(text) is
    'The messages of the log with this correlation_id, oldest first; found by an index.';
revoke all on function pgq.replies(text) from public;
