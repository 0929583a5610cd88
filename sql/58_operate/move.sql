-- Moves waiting messages from one queue to another.
create or replace function pgq.move(
    topic text,
    to_topic text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_from pgq.queue := pgq._queue_for(caller, 'admin', move.topic);
    v_to pgq.queue := pgq._destination(caller, v_from, move.to_topic);
    v_selection pgq._selection := pgq._select_messages(v_from, null, filter, null);
    v_set pgq._withdrawn;
    v_heads int8multirange := '{}';
    v_grouped bigint[] := '{}';
    v_failures jsonb[] := '{}';
    v_dues timestamptz[] := '{}';
    v_list bigint[];
    v_count bigint := 0::bigint;
begin
    if n < 1 then
        raise exception 'n must be positive, not %', n
            using errcode = 'invalid_parameter_value', hint = 'Leave it out for all of them.';
    end if;
    if not dry_run then
        -- Excludes other moves and replays, and subscriptions that add older messages: the
        -- destination must not get a message twice.
        perform pgq._lock('replay');
        lock table pgq.message in row exclusive mode;
    end if;
    -- Usually empty. Subtracting all ids of the destination from each row would read all of them.
    v_selection.spared := nullif(
        pgq._held_by(v_to.queue_id) * pgq._held_by(v_from.queue_id), '{}');
    if dry_run then
        perform pgq._say_leased(v_selection, 'move');
        return least(pgq._count_selected(v_selection, '{ready,scheduled,line}'), n);
    end if;
    for v_set in select * from pgq._withdraw(v_selection, n) loop
        perform pgq._record(v_from.queue_id, 'move', v_set.attempt, v_set.ids, 'to ' || v_to.name);
        perform pgq._record(v_to.queue_id, 'arrive', 0, v_set.ids, 'from ' || v_from.name);
        v_count := v_count + v_set.size;
        if v_set.grouped then
            v_heads := v_heads + v_set.ids;
            v_list := array(select generate_series(lower(r), upper(r) - 1)
                            from unnest(v_set.ids) r);
            v_grouped := v_grouped || v_list;
            v_failures := v_failures
                || array_fill(v_set.failures, array[cardinality(v_list)]);
            v_dues := v_dues || array_fill(v_set.due_at, array[cardinality(v_list)]);
        elsif v_set.due_at > v_selection.now then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, failures, ids)
            values (v_to.queue_id, v_set.due_at, 0, v_set.size, v_set.failures, v_set.ids);
            perform pgq._wake(v_to.queue_id);
        else
            perform pgq._enqueue(v_to, v_set.ids, 0, v_set.failures, false,
                                 back => v_set.failures is not null);
        end if;
    end loop;
    if v_heads <> '{}' then
        perform pgq._advance_groups(v_from, v_heads, v_selection.now);
        perform pgq._join_moved(v_to, v_grouped, v_failures, v_dues, v_selection.now);
    end if;
    perform pgq._say_leased(v_selection, 'move');
    return v_count;
end
$$;
comment on function pgq.move(text, text, jsonb, int, boolean, pgq.caller) is
    'Moves waiting messages of a queue to the queue to_topic: all messages, or those that match '
    'the filter, at most n, in delivery order. They keep their ids and due times, and their '
    'attempts start again. Leased messages stay, and so do messages that the other queue holds '
    'already. Returns how many were moved; dry_run only counts.';
