-- The messages of a lease: all in delivery order, or those of a slice. Volatile, so that it reads
-- with a snapshot taken after it has locked the log: an older one would miss what was carried out
-- of an emptied era.
create or replace function pgq.leased(
    lease_id bigint, slice int default 0, "of" int default 1,
    caller pgq.caller default current_user
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
    if slice is null or "of" is null or "of" < 1 or slice not between 0 and "of" - 1 then
        raise exception 'there is no slice % of %', coalesce(slice::text, 'null'),
            coalesce("of"::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Slices are numbered from 0 to of - 1.';
    end if;
    select sum(l.size) into v_size from pgq.lease l where l.lease_id = leased.lease_id;
    if v_size is null then
        perform pgq._lose_lease(leased.lease_id);
    end if;
    if "of" > 1 then
        return query
            select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload,
                   m.sender, m.recipient, m.reply_to, m.correlation_id, m.group_key,
                   m.published_at, m.expires_at, nullif(l.until, 'infinity')
            from pgq.lease l
            cross join lateral pgq._slice_ranges(l.ids, slice, "of") r
            join pgq.message m on m.id >= lower(r) and m.id < upper(r)
            where l.lease_id = leased.lease_id;
        get diagnostics v_count = row_count;
        if current_setting('transaction_isolation') <> 'read committed' then
            select sum(upper(r) - lower(r))::bigint into v_size
            from pgq.lease l cross join lateral pgq._slice_ranges(l.ids, slice, "of") r
            where l.lease_id = leased.lease_id;
            if v_count < v_size then
                perform pgq._refuse_snapshot();
            end if;
        end if;
        return;
    end if;
    return query
        select l.lease_id, m.id, m.topic, m.priority, l.attempt, m.headers, m.payload, m.sender,
               m.recipient, m.reply_to, m.correlation_id, m.group_key, m.published_at,
               m.expires_at, nullif(l.until, 'infinity')
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
comment on function pgq.leased(bigint, int, int, pgq.caller) is
    'The messages that a lease holds, again: for parallel readers and for recovery. Takes nothing. '
    'With slice and of only a part of them, in no order: the slices 0 to of - 1 together are all, '
    'and a message stays in its slice whatever is acknowledged meanwhile.';
revoke all on function pgq.leased(bigint, int, int, pgq.caller) from public;
