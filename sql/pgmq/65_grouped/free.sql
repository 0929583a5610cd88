-- Reading by groups (header x-pgmq-group; messages without it are one group). A group is blocked
-- while its oldest message is invisible. The cost grows with the length of the queue, as
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
            select h.msg_id, h.key, h.vt, min(h.msg_id) over g as head,
                   first_value(h.vt) over (g order by h.msg_id) as head_vt,
                   row_number() over (partition by h.key, h.vt > v_now order by h.msg_id) as place
            from (
                select m.*, coalesce(m.headers ->> 'x-pgmq-group', '_default_fifo_group') as key
                from pgmq._held(_free.queue_name) m
            ) h
            window g as (partition by h.key)
        ) o
        where o.head_vt <= v_now and o.vt <= v_now;
end
$$;
comment on function pgmq._free(text) is
    'The visible messages of groups that are not blocked, with their place in the group.';
