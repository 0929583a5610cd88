-- Raises 42501 unless the caller, who is not the owner, has the right to the queue. The error is
-- the same for a queue that the caller may not use and for one that does not exist.
create or replace function pgq._require(caller name, "right" text, queue text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pgq.queue q
        join pgq.queue_right r on r.queue_id = q.queue_id
        where q.name = _require.queue and r.right in (_require.right, 'admin')
          and pg_has_role(_require.caller, r.role, 'usage'))
    then
        raise exception 'permission denied for queue "%"', coalesce(queue, '<null>')
            using errcode = 'insufficient_privilege',
                  hint = pgq._did_you_mean(caller, queue)
                      || format('If there is such a queue, its owner can grant you the right: '
                          'pgq.grant_queue(queue, role, %L).', _require.right);
    end if;
end
$$;
comment on function pgq._require(name, text, text) is
    'Raises 42501 unless the caller has the right to the queue.';
