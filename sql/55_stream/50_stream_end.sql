-- Releases a consumer's name; its batches stay claimed for the next owner of the name.
create or replace function pgq.stream_end(
    queue text, consumer text, owner text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_end.queue);
begin
    update pgq.stream s set owner = null
    where s.queue_id = v_queue.queue_id and s.consumer = stream_end.consumer
      and s.owner = stream_end.owner;
    return found;
end
$$;
comment on function pgq.stream_end(text, text, text, pgq.caller) is
    'Releases the name of a stream''s consumer. An unfinished batch stays claimed for the next '
    'owner of the name. Returns false if the name had another owner.';
