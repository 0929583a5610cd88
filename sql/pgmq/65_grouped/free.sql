-- Reading by groups (header x-pgmq-group; messages without it are one group). A message is blocked
-- while an older message of its group is invisible. The cost grows with the length of the queue, as
-- in pgmq; group_key of pgq costs the same whatever the backlog.
create or replace function pgmq._free(queue_name text)
returns table (msg_id bigint, key text, head bigint, place bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := pgq.now();
begin
    return query
        select o.msg_id, o.key, o.head, o.place
        from (
            select h.msg_id, h.key, min(h.msg_id) over g as head,
                   row_number() over (g order by h.msg_id) as place,
                   -- This message, or an older one of its group, is invisible.
                   bool_or(h.vt > v_now) over (g order by h.msg_id) as blocked
            from (
                select m.*, coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group') as key
                from pgmq._held(_free.queue_name) m
            ) h
            window g as (partition by h.key)
        ) o
        where not o.blocked;
end
$$;
comment on function pgmq._free(text) is
    'The messages of a queue that no older message of their group blocks, with their place in it.';
