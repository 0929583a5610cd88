-- Removes all subscriptions of a queue; returns how many.
create or replace function pgq.unsubscribe_all(
    queue text, caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_count int;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', unsubscribe_all.queue);
    end if;
    -- Not the topic of its own name, which makes it a queue: only drop_queue ends that.
    delete from pgq.binding b using pgq.queue q
    where q.name = unsubscribe_all.queue and b.queue_id = q.queue_id and b.counted;
    get diagnostics v_count = row_count;
    if v_count > 0 then
        perform pgq._rerouted(caller);
    end if;
    return v_count;
end
$$;
comment on function pgq.unsubscribe_all(text, pgq.caller) is
    'Ends all subscriptions of a queue and returns how many there were.';
