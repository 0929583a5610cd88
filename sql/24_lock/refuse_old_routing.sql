-- Raises 40001 if the transaction reads with a snapshot from before the last change of a queue: it
-- might not see the lanes that the queue has now, and put a message where no claim finds it.
create or replace function pgq._refuse_old_routing() returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Locking a row that has changed fails. The lock itself is not needed: the rollback of this
    -- block releases it at once. The caller already has a transaction id, by which a later change
    -- of a queue takes it into account.
    perform from pgq.routing for share skip locked;
    raise exception using errcode = 'QU000';
exception
    when sqlstate 'QU000' then
        null;
end
$$;
comment on function pgq._refuse_old_routing() is
    'Raises 40001 if the transaction does not see the last change of a queue.';
