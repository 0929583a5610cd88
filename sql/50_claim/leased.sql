-- The messages of a lease, in delivery order. Volatile, so that it reads with a snapshot taken
-- after it has locked the log: an older one would miss what was carried out of an emptied era.
create or replace function pgq.leased(
    lease_id bigint, caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_size bigint;
    v_count bigint;
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, leased.lease_id);
    end if;
    select sum(l.size) into v_size from pgq.lease l where l.lease_id = leased.lease_id;
    if v_size is null then
        perform pgq._lose_lease(leased.lease_id);
    end if;
    return query
        select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, l.until
        from pgq.lease l
        cross join lateral unnest(l.ids) r
        join pgq.message m on m.id >= lower(r) and m.id < upper(r)
        where l.lease_id = leased.lease_id
        order by m.priority desc, l.attempt > 1 desc, m.id;
    get diagnostics v_count = row_count;
    if v_count < v_size then
        perform pgq._refuse_snapshot();
    end if;
end
$$;
comment on function pgq.leased(bigint, pgq.caller) is
    'The messages that a lease holds, again: for parallel readers and for recovery. Takes nothing.';
revoke all on function pgq.leased(bigint, pgq.caller) from public;
