-- Gives a consumer's name free; its batches stay claimed for whoever takes it next.
create or replace function pgq.stream_end(
    topic text, consumer text, owner text, caller pgq.caller default current_user
) returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', stream_end.topic);
begin
    update pgq.stream s set owner = null
    where s.queue_id = v_queue.queue_id and s.consumer = stream_end.consumer
      and s.owner = stream_end.owner;
    return found;
end
$$;
comment on function pgq.stream_end(text, text, text, pgq.caller) is
    'Gives the name of a stream''s consumer free. A batch that is not finished stays claimed for '
    'whoever takes the name next. False if the name had another owner.';
