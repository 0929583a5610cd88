-- The destination queue of a move or replay, for a caller who may publish to it.
create or replace function pgq._destination(caller name, queue pgq.queue, to_queue text)
returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_to pgq.queue := pgq._queue_for(caller, 'publish', to_queue);
begin
    if v_to.mode = 'archive' then
        raise exception 'queue "%" is an archive: it stores and does not deliver', v_to.name
            using errcode = 'feature_not_supported', hint = 'Name a queue that delivers.';
    elsif v_to.queue_id = queue.queue_id then
        raise exception 'the messages are in queue "%" already', v_to.name
            using errcode = 'invalid_parameter_value',
                  hint = 'Name another queue as the destination.';
    end if;
    return v_to;
end
$$;
comment on function pgq._destination(name, pgq.queue, text) is
    'The destination queue of a move or replay.';
