-- Ends messages that wait, for good: what cancel and purge have in common.
create or replace function pgq._cancel(queue pgq.queue, selection pgq._selection, verb text)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_set pgq._withdrawn;
    v_sets int8multirange[] := '{}';
    v_all int8multirange;
    v_heads int8multirange := '{}';
    v_count bigint := 0::bigint;
begin
    for v_set in select * from pgq._withdraw(selection) loop
        perform pgq._record(queue.queue_id, verb, v_set.attempt, v_set.ids, null);
        perform pgq._wake_results(v_set.ids);
        v_sets := v_sets || v_set.ids;
        if v_set.grouped then
            v_heads := v_heads + v_set.ids;
        end if;
        v_count := v_count + v_set.size;
    end loop;
    -- Their dedup keys can be used again, unless somebody is publishing with one just now. All at
    -- once: each look reads all keys of the queue.
    if v_count > 0 then
        select range_agg(s) into v_all from unnest(v_sets) s;
        delete from pgq.dedup d
        where d.ctid = any (array(
            select k.ctid from pgq.dedup k
            where k.queue_id = queue.queue_id and v_all @> k.message_id
            for update skip locked));
    end if;
    -- Those that were not heads leave their groups as they are.
    if v_heads <> '{}' then
        perform pgq._advance_groups(queue, v_heads, selection.now);
    end if;
    perform pgq._say_leased(selection, verb);
    return v_count;
end
$$;
comment on function pgq._cancel(pgq.queue, pgq._selection, text) is
    'Ends messages that wait, for good.';

-- Ends some messages of a queue that wait.
create or replace function pgq.cancel(
    topic text,
    ids bigint[] default null,
    filter jsonb default null,
    dedup_key text default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', cancel.topic);
    v_selection pgq._selection := pgq._select_messages(v_queue, ids, filter, dedup_key);
begin
    if num_nonnulls(ids, filter, dedup_key) = 0 then
        raise exception 'cancel needs ids, a filter or a dedup key'
            using errcode = 'invalid_parameter_value',
                  hint = 'To cancel everything that waits use pgq.purge(topic).';
    end if;
    if dry_run then
        perform pgq._say_leased(v_selection, 'cancel');
        return pgq._count_selected(v_selection, '{ready,scheduled,line}');
    end if;
    return pgq._cancel(v_queue, v_selection, 'cancel');
end
$$;
comment on function pgq.cancel(text, bigint[], jsonb, text, boolean, pgq.caller) is
    'Ends messages of a queue that wait: those with the given ids, that match the filter, that '
    'have the dedup key; what is given has to be true together. They are ready, scheduled, or wait '
    'for their turn in an ordering group, which goes on without them. Leased ones stay: a notice '
    'says how many. Returns how many were cancelled; dry_run only counts.';
