-- Adds a binding to a queue, which is created if it is new; false if the binding was there.
create or replace function pgq.subscribe(
    queue text,
    pattern text,
    filter jsonb default null,
    since timestamptz default null,
    since_id bigint default null,
    caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue;
    v_regex text := pgq._pattern_regex(pattern);
    v_filter pgq.filter;
    v_binding pgq.binding;
    v_past boolean := since is not null or since_id is not null;
    v_locked boolean := false;
begin
    perform pgq._check_topic(subscribe.queue);
    if not pgq._is_owner(caller) then
        perform pgq._require(caller, 'admin', subscribe.queue);
        perform pgq._require_pattern(caller, pattern, v_regex);
    end if;
    if filter is not null and filter <> '{}' then
        v_filter := pgq._find_filter(filter, null);
    end if;
    if v_past and pgq._is_owner(caller) and not exists (
        select from pgq.binding b join pgq.queue q on q.queue_id = b.queue_id
        where q.name = subscribe.queue and b.pattern = subscribe.pattern)
    then
        -- Waits for publishers in flight, which do not see the binding yet, and blocks new ones:
        -- exactly the messages that are in the log then have to be added here. Other roles than
        -- the owner leave it to maintain(): their transactions may stay open.
        lock table pgq.message in share row exclusive mode;
        v_locked := true;
    end if;
    insert into pgq.queue (name) values (subscribe.queue)
    on conflict on constraint queue_name_unique do nothing;
    v_queue := pgq._queue(subscribe.queue);

    insert into pgq.binding (queue_id, pattern, regex, filter, scope, path, pending, since,
                             since_id)
    values (v_queue.queue_id, subscribe.pattern, v_regex, v_filter.document, v_filter.scope,
            v_filter.path, v_past and not v_locked,
            case when subscribe.since is not null then least(subscribe.since, pgq.now()) end,
            case when subscribe.since_id is not null then
                least(subscribe.since_id, 1 + pg_sequence_last_value('pgq.message_id')) end)
    on conflict on constraint binding_queue_pattern_unique do nothing
    returning * into v_binding;
    if v_binding.binding_id is null then
        select b.* into v_binding from pgq.binding b
        where b.queue_id = v_queue.queue_id and b.pattern = subscribe.pattern;
        if v_binding.filter is distinct from v_filter.document then
            raise notice '"%" is subscribed to "%" with another filter', subscribe.queue, pattern
                using hint = 'Change it with pgq.alter_subscription.';
        end if;
        return false;
    end if;
    perform pgq._set_anchors(v_binding);
    if v_binding.pending then
        raise notice 'the subscription begins with the next maintenance'
            using hint = 'It misses nothing. pgq.maintain() adds what the log has.';
        return true;
    end if;
    perform pgq._rerouted(caller);
    if v_past then
        perform pgq._backfill(v_queue, v_binding, since, since_id);
    end if;
    return true;
end
$$;
comment on function pgq.subscribe(text, text, jsonb, timestamptz, bigint, pgq.caller) is
    'Subscribes a queue to the topics that match the pattern, and creates the queue if it is new. '
    'Words are separated by dots, * is one word, # is any number of words. The filter is '
    'evaluated once, when a message is published. The subscription starts with the next message. '
    'With since or since_id it starts with older messages of the log, from a time or a message id '
    'on. Publishing waits while the owner adds these; for other roles the next pgq.maintain() '
    'adds them. Returns false if the subscription exists already.';
