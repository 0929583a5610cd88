-- Claims return nothing until resume; false if the queue was paused already.
create or replace function pgq.pause(
    queue text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', pause.queue);
begin
    update pgq.queue q set paused = true where q.queue_id = v_queue.queue_id and not q.paused;
    return found;
end
$$;
comment on function pgq.pause(text, pgq.caller) is
    'Stops delivery: claims return nothing until resume. Publishing and acknowledging continue. '
    'Returns false if the queue was paused already.';
