-- Changes the delivery time of waiting messages.
create or replace function pgq.reschedule(
    queue text,
    ids bigint[] default null,
    filter jsonb default null,
    at timestamptz default null,
    delay interval default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', reschedule.queue);
    v_selection pgq._selection := pgq._select_messages(v_queue, ids, filter, null);
    v_due timestamptz := coalesce(at, v_selection.now + coalesce(delay, interval '0'));
    v_later boolean;
    v_set pgq._withdrawn;
    v_count bigint := 0::bigint;
begin
    if num_nonnulls(at, delay) = 2 or delay < interval '0' or at = 'infinity' then
        raise exception 'the new time must be either at or delay, not negative and not infinity'
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave both out to deliver the messages now.';
    end if;
    v_later := v_due > v_selection.now;
    if dry_run then
        perform pgq._say_leased(v_selection, 'reschedule');
        return pgq._count_selected(
            v_selection, case when v_later then array['ready', 'scheduled', 'line']
                         else array['scheduled', 'line'] end);
    end if;
    v_count := pgq._reschedule_line(v_selection, case when v_later then v_due else '-infinity' end);
    for v_set in
        select * from pgq._withdraw_scheduled(v_selection, null)
        union all
        select * from pgq._withdraw_ready(v_selection, null) where v_later
    loop
        perform pgq._record(v_queue.queue_id, 'reschedule', v_set.attempt, v_set.ids,
                            'due ' || v_due);
        v_count := v_count + v_set.size;
        if v_later then
            insert into pgq.scheduled (queue_id, due_at, attempt, size, grouped, failures, ids)
            values (v_queue.queue_id, v_due, v_set.attempt, v_set.size, v_set.grouped,
                    v_set.failures, v_set.ids);
        else
            perform pgq._enqueue(
                v_queue, v_set.ids, v_set.attempt, v_set.failures, v_set.grouped);
        end if;
        if v_queue.dedup <> 'keep' then  -- a later message with the key finds this one by due_at
            update pgq.dedup d set due_at = v_due
            where d.ctid = any (array(
                select k.ctid from pgq.dedup k
                where k.queue_id = v_queue.queue_id and v_set.ids @> k.message_id
                for update skip locked));
        end if;
    end loop;
    perform pgq._wake(v_queue.queue_id);
    perform pgq._say_leased(v_selection, 'reschedule');
    return v_count;
end
$$;
comment on function pgq.reschedule(
    text, bigint[], jsonb, timestamptz, interval, boolean, pgq.caller) is
    'Changes the delivery time of waiting messages of a queue: all messages, or those that match '
    'ids and filter. The new time is at, or now plus delay; without both, now. A message of an '
    'ordering group still waits for its turn. Leased messages stay. Returns how many were '
    'rescheduled; dry_run only counts.';
