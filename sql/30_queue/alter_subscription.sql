-- Gives a subscription another filter; the next publish uses it.
create or replace function pgq.alter_subscription(
    queue text, pattern text, filter jsonb, caller pgq.caller default current_user
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', alter_subscription.queue);
    v_filter pgq.filter;
    v_binding pgq.binding;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_pattern(caller, pattern, pgq._pattern_regex(pattern));
    end if;
    if filter is not null and filter <> '{}' then
        v_filter := pgq._find_filter(filter, null);
    end if;
    update pgq.binding b
    set filter = v_filter.document, scope = v_filter.scope, path = v_filter.path
    where b.queue_id = v_queue.queue_id and b.pattern = alter_subscription.pattern
    returning b.* into v_binding;
    if not found then
        raise exception '"%" is not subscribed to "%"', alter_subscription.queue, pattern
            using errcode = 'undefined_object',
                  hint = 'Subscribe it with pgq.subscribe(queue, pattern, filter).';
    end if;
    perform pgq._set_anchors(v_binding);
    perform pgq._rerouted(caller);
end
$$;
comment on function pgq.alter_subscription(text, text, jsonb, pgq.caller) is
    'Gives a subscription another filter; null removes the filter. The next publish uses it. '
    'Messages that the queue has received stay.';
