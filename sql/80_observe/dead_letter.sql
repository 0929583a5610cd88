-- Who may consume a queue may look at its dead letters. A view, because pg_dump by a role that may
-- read all data fails at row security.
create or replace view pgq.dead_letter with (security_barrier) as
select l.* from pgq.letter l
where l.queue_id in (select v.queue_id from pgq._visible_queue v);
comment on view pgq.dead_letter is
    'Whole copies of messages that failed, with why: they outlive the log and its eras.';
revoke all on table pgq.dead_letter from public;

-- Its columns are described as those of the table.
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
