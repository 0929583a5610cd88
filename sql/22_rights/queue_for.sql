-- The queue of that name, for a caller who has the right to it.
create or replace function pgq._queue_for(caller name, "right" text, name text) returns pgq.queue
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq._is_owner(caller) then
        return pgq._queue(_queue_for.name, suggest => true);
    end if;
    perform pgq._require(caller, _queue_for.right, _queue_for.name);
    return pgq._queue(_queue_for.name);
end
$$;
comment on function pgq._queue_for(name, text, text) is
    'The queue of that name, for a caller who has the right to it.';
