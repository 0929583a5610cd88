-- Registers a listener for the end of a message: the call that ends it notifies the channel
-- pgq_result with the id.
create or replace function pgq.wait_result(
    message_id bigint, waiter text, timeout interval default '1 min',
    caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) and not exists (
        select from pgq.queue_right r where pg_has_role(wait_result.caller, r.role, 'usage'))
    then
        raise exception 'permission denied to wait for messages'
            using errcode = 'insufficient_privilege',
                  hint = 'The owner of a queue can grant a right: pgq.grant_queue.';
    end if;
    if num_nonnulls(message_id, waiter, timeout) < 3
       or timeout not between '0' and interval '1 day'
    then
        raise exception 'waiting needs a message, a name, and a timeout of at most a day'
            using errcode = 'invalid_parameter_value',
                  hint = 'Call pgq.result again and again to wait for longer.';
    end if;
    insert into pgq.result_waiter as w (message_id, waiter, until)
    values (wait_result.message_id, wait_result.waiter, pgq.now() + wait_result.timeout)
    on conflict on constraint result_waiter_pkey do update
    set until = greatest(w.until, excluded.until);
end
$$;
comment on function pgq.wait_result(bigint, text, interval, pgq.caller) is
    'Registers a listener for the end of a message. The call that finishes, buries or cancels the '
    'message notifies the channel pgq_result with its id. Read '
    'pgq.result after this call, and again from time to time: a transaction that was already '
    'running may not have seen the listener.';
