-- Deletes dead letters, the oldest first.
create or replace function pgq.discard(
    queue text,
    filter jsonb default null,
    n int default null,
    dry_run boolean default false,
    cause jsonb default null,
    caller pgq.caller default current_user
) returns int
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', discard.queue);
    v_letters bigint[] := pgq._dead_letters(v_queue.queue_id, filter, cause, n, not dry_run);
    v_gone record;
begin
    if dry_run or v_letters = '{}' then
        return cardinality(v_letters);
    end if;
    with gone as (
        delete from pgq.letter d where d.dead_letter_id = any (v_letters)
        returning d.message_id, d.group_key
    )
    select array_agg(g.message_id) as ids, array_agg(g.group_key) as keys into v_gone from gone g;
    perform pgq._record(v_queue.queue_id, 'discard', 0, pgq._set_of(v_gone.ids), null);
    perform pgq._unblock_groups(v_queue, v_gone.ids, v_gone.keys, pgq.now());
    return cardinality(v_letters);
end
$$;
comment on function pgq.discard(text, jsonb, int, boolean, jsonb, pgq.caller) is
    'Deletes the dead letters of a queue that match the filter and the cause (see pgq.replay), at '
    'most n, the oldest first. Returns how many; dry_run only counts.';
