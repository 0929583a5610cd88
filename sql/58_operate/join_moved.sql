-- Puts messages of ordering groups into a queue, in order, each with its failures and due time.
create or replace function pgq._join_moved(
    queue pgq.queue, ids bigint[], failures jsonb[], dues timestamptz[], now timestamptz
) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_message record;
begin
    for v_message in
        select m.id, u.failures, u.due_at
        from unnest(_join_moved.ids, _join_moved.failures, dues) u (id, failures, due_at)
        join pgq.message m on m.id = u.id order by m.group_key, m.id
    loop
        perform pgq._rejoin_groups(
            queue, array[v_message.id], v_message.failures, v_message.due_at, now);
    end loop;
end
$$;
comment on function pgq._join_moved(
    pgq.queue, bigint[], jsonb[], timestamptz[], timestamptz) is
    'Puts messages of ordering groups into a queue, each with its failures and due time.';
