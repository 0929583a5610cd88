-- Ends all waiting messages of a queue.
create or replace function pgq.purge(
    topic text,
    filter jsonb default null,
    dry_run boolean default false,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @publisher
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', purge.topic);
    v_selection pgq._selection := pgq._select_messages(v_queue, null, filter, null);
begin
    if dry_run then
        perform pgq._say_leased(v_selection, 'purge');
        return pgq._count_selected(v_selection, '{ready,scheduled,line}');
    end if;
    return pgq._cancel(v_queue, v_selection, 'purge');
end
$$;
comment on function pgq.purge(text, jsonb, boolean, pgq.caller) is
    'Ends all waiting messages of a queue, or those that match the filter: ready, scheduled, and '
    'in ordering groups. Leased messages stay; a notice says how many. Dead letters, '
    'subscriptions and rights stay, too. Returns how many were purged; dry_run only counts. It is '
    'one transaction: a million messages take seconds.';
