-- Removes a binding; false if it was not there.
create or replace function pgq.unsubscribe(
    queue text, pattern text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', unsubscribe.queue);
    end if;
    delete from pgq.binding b using pgq.queue q
    where q.name = unsubscribe.queue and b.queue_id = q.queue_id
      and b.pattern = unsubscribe.pattern;
    if not found then
        return false;
    end if;
    perform pgq._rerouted(caller);
    return true;
end
$$;
comment on function pgq.unsubscribe(text, text, pgq.caller) is
    'Ends a subscription. Messages that the queue has received stay. Returns false if there was '
    'none.';
