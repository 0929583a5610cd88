-- The lease of a named claim, extended, if the name has one. Claims of one name wait for each
-- other, so that the second finds the lease of the first.
create or replace function pgq._named_claim(
    queue pgq.queue, key text, lease interval, endless boolean
) returns pgq._taken
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_taken pgq._taken := row(null, 0, null)::pgq._taken;
    v_until timestamptz;
begin
    perform pgq._take_name(queue.queue_id, key);
    -- Locked, because another session may be ending the lease, or taking it back.
    select l.lease_id into v_taken.lease_id from pgq.lease l
    where l.queue_id = queue.queue_id and l.key = _named_claim.key
    order by l.part limit 1 for update;
    if found then
        v_until := case when endless then 'infinity'
                   else pgq.now() + pgq._lease_span(coalesce(lease, queue.lease)) end;
        update pgq.lease l set until = v_until
        where l.lease_id = v_taken.lease_id and l.until < v_until;
        select sum(l.size)::int into v_taken.size from pgq.lease l
        where l.lease_id = v_taken.lease_id;
    end if;
    return v_taken;
end
$$;
comment on function pgq._named_claim(pgq.queue, text, interval, boolean) is
    'The lease of an existing named claim.';
