-- Resumes delivery; false if the queue was not paused.
create or replace function pgq.resume(
    queue text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'admin', resume.queue);
begin
    update pgq.queue q set paused = false where q.queue_id = v_queue.queue_id and q.paused;
    if not found then
        return false;
    end if;
    perform pgq._wake(v_queue.queue_id);
    return true;
end
$$;
comment on function pgq.resume(text, pgq.caller) is
    'Lets a paused queue deliver again. Returns false if it was not paused.';
