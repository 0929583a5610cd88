-- How many messages each slice of a lease has: what readers of the slices check themselves by.
create or replace function pgq.lease_slices(
    lease_id bigint, "of" int, caller pgq.caller default current_user)
returns table (slice int, size bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    if not pgq._is_owner(caller) then
        perform pgq._require_lease(caller, lease_slices.lease_id);
    end if;
    if "of" is null or "of" < 1 then
        raise exception 'there must be at least one slice'
            using errcode = 'invalid_parameter_value',
                  hint = 'About as many as there are readers is a good number.';
    end if;
    return query
        select (b % "of")::int,
               sum(least(upper(r), (b + 1) << 6) - greatest(lower(r), b << 6))::bigint
        from pgq.lease l
        cross join lateral unnest(l.ids) r
        cross join lateral generate_series(lower(r) >> 6, (upper(r) - 1) >> 6) b
        where l.lease_id = lease_slices.lease_id
        group by 1 order by 1;
end
$$;
comment on function pgq.lease_slices(bigint, int, pgq.caller) is
    'How many messages of a lease pgq.leased(lease_id, slice, of) returns for each slice; slices '
    'without messages are left out.';
revoke all on function pgq.lease_slices(bigint, int, pgq.caller) from public;
