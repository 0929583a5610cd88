-- The messages of a lease in delivery order. Volatile, so that it reads with a snapshot taken after
-- it has locked the log: an older one would miss messages copied forward out of a truncated era.
create or replace function pgq.leased(
    lease_id bigint, caller pgq.caller default current_user
) returns setof pgq.claimed
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- @worker
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
        select * from pgq._read_lease(leased.lease_id) m
        order by m.priority desc, m.attempt > 1 desc, m.id;
    get diagnostics v_count = row_count;
    if v_count < v_size then
        perform pgq._refuse_missing(lease_id);
    end if;
end
$$;
comment on function pgq.leased(bigint, pgq.caller) is
    'Reads the messages of a lease again, for recovery and after pgq.hold. Changes nothing. To '
    'read a lease in parallel, use pgq.lease_parts and pgq.leased_message.';
