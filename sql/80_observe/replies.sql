-- The messages that belong together by their correlation id, oldest first.
create or replace function pgq.replies(
    correlation_id text, caller pgq.caller default current_user
) returns setof pgq.message
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_queues int[] := pgq._visible_queues(caller);
begin
    return query
        select m.* from pgq.message m
        where m.correlation_id = replies.correlation_id
          and (v_queues is null or pgq._is_received(v_queues, m))
        order by m.id;
end
$$;
comment on function pgq.replies(text, pgq.caller) is
    'The messages of the log with this correlation_id, oldest first. An index finds them.';
