-- How long to wait for the lock on a slot that could have been emptied since then: everybody else
-- waits for as long. Where a short patience is always in vain, because claims are parts of longer
-- transactions, the log must not grow for ever. Well below deadlock_timeout, so that who waits for
-- this lock and holds another never ends as the victim of a deadlock.
create or replace function pgq._era_patience(since timestamptz, retention interval)
returns interval
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return least(
        current_setting('deadlock_timeout')::interval / 3,
        interval '50 ms' * least(10, 1 + 10 * coalesce(
            greatest(date_part('epoch', pgq.now() - since), 0)
            / greatest(date_part('epoch', retention), 60), 0)));
end
$$;
comment on function pgq._era_patience(timestamptz, interval) is
    'How long to wait for the lock on a slot that has to be emptied.';
revoke all on function pgq._era_patience(timestamptz, interval) from public;
