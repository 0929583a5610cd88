-- Raises 40001 if the transaction reads with a snapshot from before the last change of a queue: it
-- might not know which lanes the queue has now, and put a message where no claim looks for it.
create or replace function pgq._refuse_old_routing() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- To lock a row that has changed is what fails. The lock itself is not wanted: rolling back to
    -- here gives it up at once. Called by transactions that write already, so that a change to come
    -- knows of them.
    perform from pgq.routing for share skip locked;
    raise exception using errcode = 'QU000';
exception
    when sqlstate 'QU000' then
        null;
end
$$;
comment on function pgq._refuse_old_routing() is
    'Raises 40001 if the transaction does not know the last change of a queue.';
