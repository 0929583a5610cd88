-- Deletes dead letters, the oldest first.
create or replace function pgq.discard(
    topic text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', discard.topic);
    v_letters bigint[] := pgq._dead_letters(v_queue.queue_id, filter, n, not dry_run);
    v_gone record;
    v_group record;
    v_next record;
begin
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    with gone as (
        delete from pgq.dead_letter d where d.dead_letter_id = any (v_letters)
        returning d.message_id, d.group_key
    )
    select range_agg(int8range(g.message_id, g.message_id + 1)) as ids,
           jsonb_object_agg(g.message_id, g.group_key) filter (where g.group_key is not null)
               as groups
    into v_gone from gone g;
    insert into pgq.journal (at, queue_id, event, attempt, size, holder, client, ids)
    values (pgq.now(), v_queue.queue_id, 'discard', 0, cardinality(v_letters),
            nullif(current_setting('application_name'), ''), inet_client_addr(), v_gone.ids);
    insert into pgq.outcome (queue_id, event, size)
    values (v_queue.queue_id, 'discard', cardinality(v_letters));
    -- What a dead letter has blocked can go on.
    for v_group in select e.key::bigint as id, e.value from jsonb_each_text(v_gone.groups) e loop
        v_next := pgq._advance_group(v_queue.queue_id, v_group.value, v_group.id);
        if v_next.held then
            insert into pgq.group_stall (queue_id, group_key, message_id)
            values (v_queue.queue_id, v_group.value, v_group.id);
        elsif v_next.next_id is not null then
            perform pgq._admit_heads(
                v_queue, array[v_next.next_id], v_next.failures, pgq.now());
        end if;
    end loop;
    return cardinality(v_letters);
end
$$;
comment on function pgq.discard(text, jsonb, int, boolean, pgq.caller) is
    'Deletes dead letters of a queue that match the filter, at most n, the oldest first, for good. '
    'Returns how many; dry_run only counts.';
revoke all on function pgq.discard(text, jsonb, int, boolean, pgq.caller) from public;
