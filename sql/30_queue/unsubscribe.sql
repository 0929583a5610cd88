-- Removes a binding; false if it was not there.
create or replace function pgq.unsubscribe(subscriber text, pattern text) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from pgq.binding b using pgq.queue q
    where q.name = subscriber and b.queue_id = q.queue_id and b.pattern = unsubscribe.pattern;
    if not found then
        return false;
    end if;
    perform pgq._rerouted();
    return true;
end
$$;
comment on function pgq.unsubscribe(text, text) is
    'Ends a subscription: what the queue has received stays in it. False if there was none.';
revoke all on function pgq.unsubscribe(text, text) from public;
