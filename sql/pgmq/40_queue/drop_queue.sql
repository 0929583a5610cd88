create or replace function pgmq.drop_queue(queue_name text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgmq.acquire_queue_lock(queue_name);
    begin
        perform pgq.drop_queue(queue_name, force => true);
    exception when sqlstate 'QU001' then
        raise notice 'queue "%" does not exist', queue_name;
        return false;
    end;
    perform pgmq._dropped(queue_name);
    return true;
end
$$;
comment on function pgmq.drop_queue(text) is
    'Drops a queue with its messages and its archive; false if there is none.';

create or replace function pgmq.drop_queue(queue_name text, partitioned boolean) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    raise warning 'drop_queue(queue_name, partitioned) is deprecated'
        using hint = 'Call drop_queue(queue_name).';
    perform pgmq.drop_queue(queue_name);
    return true;
end
$$;
comment on function pgmq.drop_queue(text, boolean) is
    'Drops a queue with its messages and its archive, if there is one; always true, as in pgmq.';
