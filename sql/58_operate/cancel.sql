-- Ends waiting messages for good: the common part of cancel and purge.
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
    -- Free their dedup keys, but for those that a publisher has locked. In one statement, because
    -- it reads all keys of the queue.
    if v_count > 0 then
        select range_agg(s) into v_all from unnest(v_sets) s;
        delete from pgq.dedup d
        where d.ctid = any (array(
            select k.ctid from pgq.dedup k
            where k.queue_id = queue.queue_id and v_all @> k.message_id
            for update skip locked));
    end if;
    -- These include messages behind the head of a group, which do not change the group.
    if v_heads <> '{}' then
        perform pgq._advance_groups(queue, v_heads, selection.now);
    end if;
    perform pgq._say_leased(selection, verb);
    return v_count;
end
$$;
comment on function pgq._cancel(pgq.queue, pgq._selection, text) is
    'Ends waiting messages for good.';

-- Ends selected waiting messages of a queue.
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
    'Ends waiting messages of a queue: ready, scheduled, or waiting for their turn in an ordering '
    'group. The group continues without them. Selects by ids, filter and dedup key; a message '
    'must satisfy all that are given. Leased messages stay; a notice says how many. Returns how '
    'many messages were cancelled; dry_run only counts.';
