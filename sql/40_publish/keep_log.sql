-- Refuses manual changes of the log, and TRUNCATE of the tables of queues: a deleted message would
-- stay in the sets of its queues. Functions that may change the log are recognized by the call
-- stack; no role but the owner can create functions of these names.
create or replace function pgq._keep_log() returns trigger
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stack text;
begin
    get diagnostics v_stack = pg_context;
    if v_stack ~ 'pgq[.](publish|_publish_direct|_copy_forward|_copy_late|_truncate_slot)[(]'
       -- Logical replication repeats what happened elsewhere.
       or exists (select from pg_stat_activity a
                  where a.pid = pg_backend_pid() and a.backend_type like 'logical replication%')
    then
        return null;
    end if;
    raise exception '% on pgq.% is refused', tg_op, tg_table_name
        using errcode = 'feature_not_supported',
              detail = case when tg_table_name like 'message%'
                  then 'The log is immutable: pgq.maintain() removes messages by the retention of '
                      'the queues.'
                  else 'Every message of every queue would be lost.' end,
              hint = case when tg_op = 'UPDATE'
                  then 'Publish another message, and take this one out of a queue with pgq.cancel.'
                  else 'pgq.cancel takes messages out of a queue, pgq.purge empties one, '
                      'pgq.discard ends dead letters.' end;
end
$$;
comment on function pgq._keep_log() is 'Rejects manual changes of the log.';

-- Only once: to create a trigger again would lock the tables at every upgrade.
do $$
declare
    v_table text;
begin
    foreach v_table in array
        '{message,message_0,message_1,message_2,ready,scheduled,lease,group_head,group_line,
          letter}'::pg_catalog.text[]
    loop
        continue when exists (
            select from pg_catalog.pg_trigger t
            where t.tgrelid operator(pg_catalog.=) pg_catalog.format('pgq.%I', v_table)::regclass
              and t.tgname operator(pg_catalog.=) 'keep_log');
        -- Every call changes the tables other than the log: there only TRUNCATE has the trigger.
        execute pg_catalog.format(
            'create trigger keep_log before %s truncate on pgq.%I '
            'for each statement execute function pgq._keep_log()',
            case when v_table ~ '^message' then 'update or delete or' end, v_table);
        execute pg_catalog.format('alter table pgq.%I enable always trigger keep_log', v_table);
        execute pg_catalog.format(
            'comment on trigger keep_log on pgq.%I is %L', v_table,
            'Messages are taken out of queues by functions, not by hand.');
    end loop;
end
$$;
