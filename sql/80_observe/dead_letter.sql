-- Roles that may consume a queue may read its dead letters. A view, because with row security
-- pg_dump fails for a role that may read all data.
create or replace view pgq.dead_letter with (security_barrier) as
select (select q.name from pgq.queue q where q.queue_id = l.queue_id) as queue, l.*
from pgq.letter l
where l.queue_id in (select v.queue_id from pgq._visible_queue v);
comment on view pgq.dead_letter is
    'Full copies of failed messages, with the reason. They stay when the log is rotated.';
comment on column pgq.dead_letter.queue is 'The name of the queue.';
revoke all on table pgq.dead_letter from public;

-- Copies the comments of the columns from the table.
do $$
declare
    v_column record;
begin
    for v_column in
        select a.attname as name, pg_catalog.col_description(a.attrelid, a.attnum) as text
        from pg_catalog.pg_attribute a
        where a.attrelid operator(pg_catalog.=) 'pgq.letter'::regclass
          and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
          and pg_catalog.col_description(a.attrelid, a.attnum) is not null
    loop
        execute pg_catalog.format('comment on column pgq.dead_letter.%I is %L', v_column.name,
                                  v_column.text);
    end loop;
end
$$;
