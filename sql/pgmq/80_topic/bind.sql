create or replace function pgmq._bind(
    pattern text, queue_name text, bound boolean, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', queue_name);
begin
    if bound then
        insert into pgmq.topic_bindings (pattern, queue_name)
        values (_bind.pattern, v_queue.name)
        on conflict on constraint topic_bindings_pkey do nothing;
    else
        delete from pgmq.topic_bindings b
        where b.pattern = _bind.pattern and b.queue_name = v_queue.name;
    end if;
    return found;
end
$$;
comment on function pgmq._bind(text, text, boolean, pgq.caller) is
    'Binds a queue to a pattern, or unbinds it.';
